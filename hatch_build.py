"""Package metadata that depend on the address of the repository.

The environment variable ``CLOCS_REPOSITORY_URL`` holds the address; the release workflow sets it. Project URLs, the
pictures and links of the README, and the citation derive from it. Without it they are left out, because relative
addresses do not work on a package index.

``python hatch_build.py`` prints the citation file of a release.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the citation needs no build backend
    MetadataHookInterface = object

ROOT = Path(__file__).parent
VARIABLE = "CLOCS_REPOSITORY_URL"
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>(?!https?:)[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<path>(?!https?:|#)[^)\s]+)\)")
TAG = re.compile(r"[ \t]*<(?P<name>picture)>.*?</picture>\n?|[ \t]*<(?:img|source)\b[^>]*>\n?", re.S)
ATTRIBUTE = re.compile(r'\b(?P<name>src|srcset|href)="(?P<path>(?!https?:|#)[^"\s]+)"')


def repository_url() -> str:
    """Return the address of the repository without a final slash, empty if it is not set."""
    return os.environ.get(VARIABLE, "").strip().rstrip("/")


def package_version(root: Path = ROOT) -> str:
    """Return the version that the package states."""
    text = (root / "src" / "clocs" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.M)
    if found is None:
        raise ValueError('src/clocs/__init__.py has no line __version__ = "..."')
    return found[1]


def project_urls(url: str) -> dict[str, str]:
    """Return the project URLs of a repository."""
    if not url:
        return {}
    paths = {"Source": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md", "Security": "/security/policy"}
    return {name: url + path for name, path in paths.items()}


def absolute_readme(text: str, url: str, version: str) -> str:
    """Return a README whose pictures and links work away from the repository.

    Args:
        text: The README in Markdown, with pictures and links relative to the root of the repository.
        url: Address of the repository. If it is empty, pictures are removed and links become plain text.
        version: Version whose tag the addresses name.
    """
    if not url:
        text = TAG.sub("", PICTURE.sub("", text))
        return re.sub(r"\n{3,}", "\n\n", LINK.sub(lambda found: found["text"], text))
    raw, page = f"{url}/raw/v{version}", f"{url}/blob/v{version}"
    text = PICTURE.sub(lambda found: f"![{found['alt']}]({raw}/{found['path']})", text)
    text = LINK.sub(lambda found: f"[{found['text']}]({page}/{found['path']})", text)
    return ATTRIBUTE.sub(
        lambda found: f'{found["name"]}="{page if found["name"] == "href" else raw}/{found["path"]}"', text
    )


def citation(text: str, url: str, version: str) -> str:
    """Return the citation file of a release: with its version, and the address if there is one."""
    added = f"version: {version}\n" + (f"repository-code: {url}\n" if url else "")
    return text.replace("license: ", f"{added}license: ", 1)


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc, valid-type, unused-ignore]
    """Fill in the dynamic fields of ``pyproject.toml``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set readme and URLs."""
        root, url = Path(self.root), repository_url()
        text = absolute_readme((root / "README.md").read_text(encoding="utf-8"), url, package_version(root))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if urls := project_urls(url):
            metadata["urls"] = urls


if __name__ == "__main__":
    print(citation((ROOT / "CITATION.cff").read_text(encoding="utf-8"), repository_url(), package_version()), end="")
