"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under their titles; whole numbers with separators."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console().print(table)
