"""Check that links between pages of the built documentation lead somewhere.

Sphinx calls ``check_site`` at the end of a build. ``python docs/check_links.py FOLDER`` checks a site that is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.errors import SphinxError

TARGET = re.compile(r'<(?:a|img|link|script|source)\b[^>]*?\s(?:href|src|srcset)="([^"]*)"')
ANCHOR = re.compile(r'\s(?:id|name)="([^"]+)"')


def check_site(folder: Path) -> None:
    """Raise an error that lists all links to missing files and anchors.

    Args:
        folder: Folder of the built pages.

    Raises:
        SphinxError: A link of a page leads nowhere.
    """
    broken = sorted({f"{page.relative_to(folder)}: {link}" for page, link in broken_links(folder)})
    if broken:
        raise SphinxError("Links that lead nowhere:\n" + "\n".join(broken))


def broken_links(folder: Path) -> Iterator[tuple[Path, str]]:
    """Iterate over pages with a link whose file or anchor is missing. Links to other sites are not followed."""
    for page in sorted(set(folder.rglob("*.html")) - set((folder / "_static").rglob("*"))):
        for link in set(TARGET.findall(page.read_text())):
            parts = urlsplit(unescape(link))
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = page if not parts.path else (page.parent / unquote(parts.path)).resolve()
            is_page = target.suffix == ".html"
            if not target.exists() or (is_page and parts.fragment and unquote(parts.fragment) not in _anchors(target)):
                yield page, link


@cache
def _anchors(page: Path) -> frozenset[str]:
    return frozenset(map(unescape, ANCHOR.findall(page.read_text())))


if __name__ == "__main__":
    check_site(Path(sys.argv[1]).resolve())
