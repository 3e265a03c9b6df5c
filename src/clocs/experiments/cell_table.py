"""A table of finished cells: one file of JSON lines, one line a cell.

Processes append to it under a lock. Text tools, ``git diff`` and pandas read it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.files import append_bytes, cut_file, make_folders, sync_file

BLOCK: Final = 1 << 16


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
        text = json.dumps({"name": name, **row}, separators=(",", ":"), sort_keys=True, allow_nan=False)
        try:
            make_folders(self.path.parent)
            with open(self.path, "ab") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                size, whole = self.path.stat().st_size, _whole_lines(self.path)
                if whole < size:  # a killed process left a part of a line
                    cut_file(self.path, whole)
                append_bytes(self.path, f"{text}\n".encode())
                sync_file(self.path)
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


def _whole_lines(path: Path) -> int:
    """Return the number of bytes up to the end of the last whole line."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - BLOCK, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0
