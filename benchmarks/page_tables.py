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
        before, *found = re.split(pattern, text)
        if len(found) != 3:
            raise SystemExit(f"{page.name} has {len(found) // 3} places for the table '{name}'.")
        start, end, after = found
        text = f"{before}{start}{body}\n{end}{after}"
    page.write_text(text)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
