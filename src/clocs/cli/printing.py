"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under their titles; whole numbers with separators, words as they are: "[old]" is no markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in titles:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    Console().print(table)
