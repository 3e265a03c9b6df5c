"""Where a grid works, and where its results are kept.

A finished cell is a row of a table, named by everything that decides its numbers. Nothing else decides whether a cell
is computed: grids share cells, a killed grid continues, and results can be committed and moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from clocs.core.run_identity import identity_name
from clocs.experiments.cell_table import CellTable
from clocs.experiments.cells import Cell
from clocs.store.store import open_store

TABLE: Final = "cells.jsonl"


@dataclass(frozen=True)
class Workspace:
    """The folders of a grid."""

    stores: Path
    """One store a dataset, by the dataset's name, each with a default split."""
    runs: Path
    """What is being computed. It can be deleted when the cells are finished."""
    results: Path
    """The table of finished cells: small, to be kept."""
    threads: int = 1

    @cached_property
    def table(self) -> CellTable:
        """The finished cells."""
        return CellTable(self.results / TABLE)

    def store(self, dataset: str) -> Path:
        """Return the folder of a dataset's store."""
        return self.stores / dataset

    def has_store(self, dataset: str) -> bool:
        """Return whether a dataset has been ingested."""
        return self.store(dataset).is_dir()

    def origin(self, cell: Cell) -> dict[str, Any]:
        """Return the hashes of store and split of all data that a cell depends on, and of given weights."""
        data = {dataset: list(_hashes(self.store(dataset))) for dataset in cell.datasets}
        weights = cell.given_weights
        return {"data": data, **({} if weights is None else {"weights": weights})}

    def name(self, cell: Cell) -> str:
        """Return the name of a cell: readable, with a hash of everything that decides its numbers."""
        return identity_name(cell.label, cell.describe(), self.origin(cell))

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """Return the row of a finished cell, or None."""
        return self.table.get(self.name(cell))

    def keep(self, cell: Cell, found: dict[str, Any]) -> None:
        """Add a finished cell to the table."""
        self.table.append(self.name(cell), {"cell": cell.describe(), "origin": self.origin(cell), **found})

    def __getstate__(self) -> dict[str, Any]:
        """Leave the rows out: another process reads them itself."""
        return {name: value for name, value in self.__dict__.items() if name != "table"}


@lru_cache(maxsize=64)
def _hashes(folder: Path) -> tuple[str, str]:
    """Of a store and its default split."""
    store = open_store(folder)
    return store.sha256, store.split().sha256
