"""Results of measurements: one JSON file for each, with a row for each encoder and variant."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from clocs.core.storage.files import write_bytes

Row = dict[str, Any]
RESULTS: Final = Path(__file__).parent / "results"
"""Folder of the committed results."""


class Rows:
    """Rows of one measurement. A row is computed once, and again with further training or other seeds.

    Args:
        path: JSON file of the rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []

    def find(self, **key: object) -> Row | None:
        """Return the row whose values equal those of the key; None if there is none."""
        return next((row for row in self.rows if all(row.get(name) == value for name, value in key.items())), None)

    def compute(self, key: Row, about: Row, measure: Callable[[], Row]) -> None:
        """Measure a row unless it is known, and save it.

        Args:
            key: Values that tell the row from all others.
            about: Further values. A row with other ``steps`` of a pre-training, or other ``seeds``, is measured again.
            measure: Returns the results.
        """
        found = self.find(**key)
        if found is not None and all(found.get(name) == about.get(name) for name in ("steps", "seeds")):
            return
        row = {**key, **about, **measure()}
        self.rows = [each for each in self.rows if each is not found] + [row]
        lines = ",\n".join(json.dumps(_rounded(each)) for each in self.rows)
        write_bytes(self.path, f'{{"rows": [\n{lines}\n]}}\n'.encode())


def _rounded(value: Any) -> Any:
    """Return a JSON value with numbers of five digits after the point."""
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
