"""Make the site of all versions of the documentation from one archive each.

``make archive`` packs the built pages of this version for its release. ``make site`` unpacks the archives of all
releases, and lists them for the version switcher. The first page leads to the newest version.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

ARCHIVE = re.compile(r"docs-(\d+)\.(\d+)\.(\d+)\.zip")


def make_site(archives: Path, site: Path, url: str) -> list[str]:
    """Unpack all versions, and write the list of versions and the first page.

    Args:
        archives: Folder of archives named ``docs-X.Y.Z.zip``.
        site: Folder of the site, which is created.
        url: Address of the site.

    Returns:
        All versions, the newest first.

    Raises:
        ValueError: No archive has the name of a version.
    """
    found = [tuple(map(int, match.groups())) for path in archives.iterdir() if (match := ARCHIVE.fullmatch(path.name))]
    versions = [".".join(map(str, version)) for version in sorted(found, reverse=True)]
    if not versions:
        raise ValueError(f"{archives} has no archive docs-X.Y.Z.zip. Download those of the releases.")
    for version in versions:
        with zipfile.ZipFile(archives / f"docs-{version}.zip") as archive:
            archive.extractall(site / version)
    url = url.rstrip("/")
    listed = [
        {"version": version, "url": f"{url}/{version}/", "preferred": version == versions[0]} for version in versions
    ]
    (site / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    newest = f"{versions[0]}/index.html"
    (site / "index.html").write_text(
        f'<!doctype html><title>clocs</title><meta http-equiv="refresh" content="0; url={newest}">'
        f'<a href="{newest}">Documentation of clocs {versions[0]}</a>\n'
    )
    return versions


def pack(pages: Path, archive: Path) -> None:
    """Write an archive of built pages.

    Args:
        pages: Folder of the pages.
        archive: The archive to write, ``docs-X.Y.Z.zip``.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for path in sorted(pages.rglob("*")):
            if path.is_file() and ".doctrees" not in path.parts:
                written.write(path, path.relative_to(pages))


if __name__ == "__main__":
    if sys.argv[1] == "pack":
        pack(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(*make_site(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
