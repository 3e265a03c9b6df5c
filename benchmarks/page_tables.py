"""Tables of docs pages that are made from results, between markers in the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def write_tables(page: Path, tables: Mapping[str, str]) -> None:
    """Replace the tables of a page by name: what is between ``<!-- table: NAME -->`` and ``<!-- end -->``."""
    text = page.read_text()
    for name, body in tables.items():
        pattern = rf"(?s)(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(pattern, lambda found, body=body: f"{found[1]}{body}\n{found[2]}", text)
        if count != 1:
            raise SystemExit(f"{page.name} has {count} places for the table '{name}'.")
    page.write_text(text)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
