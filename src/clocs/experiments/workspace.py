"""Folders of a grid, and the table of its results.

A finished cell is a row of a table. Its name depends on everything that affects its result, and only the name decides
whether a cell is computed. So grids share cells, a killed grid continues, and results can be committed and moved. The
table is a file of JSON lines, one a cell. Processes append to it under a lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.run_identity import identity_name
from clocs.core.storage.file_locks import lock_file
from clocs.core.storage.files import append_bytes, make_folders, sync_file, truncate_file
from clocs.experiments.cells import Cell
from clocs.store.store import open_store

BLOCK: Final = 1 << 16
TABLE: Final = "cells.jsonl"


class CellTable:
    """Rows of a file by name. Rows that other processes append are found at the next lookup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[str, Any]] = {}
        self._read_bytes = 0
        """Bytes of the file that have been read. Rows are only appended."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a row by its name, or None."""
        self._read_new_rows()
        return self._rows.get(name)

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over the names and rows, in the order of the file."""
        self._read_new_rows()
        yield from list(self._rows.items())

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Append a row to the file and sync it to disk."""
        text = json.dumps({"name": name, **row}, separators=(",", ":"), sort_keys=True, allow_nan=False)
        try:
            make_folders(self.path.parent)
            with open(self.path, "ab") as held:
                lock_file(held)
                size, complete = self.path.stat().st_size, _size_of_complete_lines(self.path)
                if complete < size:  # a killed process left a part of a line
                    truncate_file(self.path, complete)
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
        complete = new[: new.rfind(b"\n") + 1]  # another process may be writing the last line
        for line in complete.splitlines():
            try:
                row = json.loads(line)
                self._rows[row.pop("name")] = row
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
                raise IntegrityError(f"{self.path.name}: line '{line[:40]!r}...' is not a cell: {error}.") from error
        self._read_bytes += len(complete)


def _size_of_complete_lines(path: Path) -> int:
    """Return the number of bytes up to the end of the last complete line."""
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


@dataclass(frozen=True)
class Workspace:
    """Folders of a grid."""

    stores: Path
    """Folder of stores, named by dataset, each with a default split."""
    runs: Path
    """Folder of runs. It can be deleted when the cells are finished."""
    results: Path
    """Folder of the table of finished cells, which is small and worth keeping."""
    num_threads: int = 1
    """Threads of a cell."""

    @cached_property
    def table(self) -> CellTable:
        """Table of the finished cells."""
        return CellTable(self.results / TABLE)

    def store(self, dataset: str) -> Path:
        """Return the folder of a dataset's store."""
        return self.stores / dataset

    def has_store(self, dataset: str) -> bool:
        """Return whether a dataset has been ingested."""
        return self.store(dataset).is_dir()

    def origin(self, cell: Cell) -> dict[str, Any]:
        """Return the store and split hashes of all data that a cell depends on, and the hash of initial weights."""
        data = {dataset: list(_hashes(self.store(dataset))) for dataset in cell.datasets}
        weights = cell.initial_weights_sha256
        return {"data": data, **({} if weights is None else {"weights": weights})}

    def name(self, cell: Cell) -> str:
        """Return the name of a cell: its label, with a hash of everything that affects its result."""
        return identity_name(cell.label, cell.describe(), self.origin(cell))

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """Return the row of a finished cell, or None."""
        return self.table.get(self.name(cell))

    def add_result(self, cell: Cell, result: dict[str, Any]) -> None:
        """Add a finished cell to the table."""
        self.table.append(self.name(cell), {"cell": cell.describe(), "origin": self.origin(cell), **result})

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the table, which another process reads itself."""
        return {name: value for name, value in self.__dict__.items() if name != "table"}


@lru_cache(maxsize=64)
def _hashes(folder: Path) -> tuple[str, str]:
    """Return the hashes of a store and of its default split."""
    store = open_store(folder)
    return store.sha256, store.split().sha256
