"""A table of finished cells: one file of JSON lines, one line a cell.

Processes append to it under a lock. Text tools, ``git diff`` and pandas read it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError, StoreError


class CellTable:
    """Rows by name. A row that another process appends is found at the next lookup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[str, Any]] = {}
        self._read_bytes = 0
        """How far the file has been read. Rows are only ever appended."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a row by its name, or None."""
        self._read_new_rows()
        return self._rows.get(name)

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the names and rows, in the order of the file."""
        self._read_new_rows()
        yield from list(self._rows.items())

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add a row at the end of the file, on disk when this returns."""
        line = (
            json.dumps({"name": name, **row}, separators=(",", ":"), sort_keys=True, allow_nan=False).encode() + b"\n"
        )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _remove_torn_line(file.fileno())
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _read_new_rows(self) -> None:
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self._read_bytes)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]  # another process may be writing the last line
        for line in whole.splitlines():
            try:
                row = json.loads(line)
                self._rows[row.pop("name")] = row
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
                raise IntegrityError(f"{self.path.name}: line '{line[:40]!r}...' is not a cell: {error}") from error
        self._read_bytes += len(whole)


def _remove_torn_line(file: int) -> None:
    """Cut off what a killed process left of a line."""
    size, block = os.fstat(file).st_size, 1 << 16
    end = size
    while end > 0:
        start = max(end - block, 0)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
