"""Where a grid works, and what is kept of it.

A finished cell is a small file in the results folder, named by what went into it. Nothing else decides whether a
cell is run: so grids share cells, killed ones continue, and results can be committed and moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from clocs.core.errors import StoreError
from clocs.core.files import content_hash
from clocs.evaluation.results import CODE as EVALUATION_CODE
from clocs.experiments.cells import Cell, Evaluation, Pretraining, told_of
from clocs.store.store import open_store
from clocs.training.checkpoint import load_encoder_folder
from clocs.training.runs import CODE as TRAINING_CODE
from clocs.training.shipped import encoder_folder


@dataclass(frozen=True)
class Place:
    """Where a grid works."""

    stores: Path
    """One store a dataset, by the dataset's name, each with a default split."""
    runs: Path
    """What is being computed; may be thrown away when cells are finished."""
    results: Path
    """Finished cells: small, to be kept."""
    threads: int = 1

    def store(self, dataset: str) -> Path:
        """A dataset's store."""
        return self.stores / dataset

    def has_store(self, dataset: str) -> bool:
        """Whether a dataset has been ingested."""
        return self.store(dataset).is_dir()

    def hashes(self, dataset: str) -> tuple[str, str]:
        """Of a dataset's store and split."""
        return _hashes(self.store(dataset))

    def origin(self, cell: Cell) -> dict[str, Any]:
        """Hashes of store and split of all data that a cell depends on, of an encoder that is shipped, and versions of
        the code it uses."""
        code = [TRAINING_CODE, *([EVALUATION_CODE] if isinstance(cell, Evaluation) else [])]
        told: dict[str, Any] = {"data": {dataset: self.hashes(dataset) for dataset in cell.datasets}, "code": code}
        if isinstance(cell, Evaluation) and cell.shipped:
            told["weights"] = _weights(cell.shipped)
        return told

    def name(self, cell: Cell) -> str:
        """A cell's name: readable, with a hash of everything that decides its numbers."""
        told = {"cell": told_of(cell), **self.origin(cell)}
        return f"{cell.label}-{content_hash(told)[:12]}"

    def file(self, cell: Cell) -> Path:
        """Where a cell's result is, or will be."""
        return self.results / "cells" / f"{self.name(cell)}.json"

    def encoder(self, cell: Pretraining) -> Path:
        """Where a finished pre-training's encoder is."""
        return self.results / "encoders" / self.name(cell)

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What a finished cell found."""
        path = self.file(cell)
        return json.loads(path.read_bytes()) if path.exists() else None


@lru_cache(maxsize=64)
def _hashes(folder: Path) -> tuple[str, str]:
    store = open_store(folder)
    return store.sha256, store.split().sha256


@lru_cache(maxsize=64)
def _weights(shipped: str) -> str:
    """Hash of an encoder that comes with the package."""
    return str(load_encoder_folder(encoder_folder(shipped))[1]["weights_sha256"])


def finished_cells(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and bodies of all finished cells of a folder, by name."""
    for path in sorted((results / "cells").glob("*.json")):
        try:
            body = json.loads(path.read_bytes())
            if not (isinstance(body["cell"], dict) and isinstance(body["result"], dict)):
                raise TypeError("'cell' and 'result' must be objects")
            _ = body["code"], body["data"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(f"{path} is no finished cell: {type(error).__name__}: {error}") from error
        yield path.stem, body


def kept_keys(results: Path) -> frozenset[str]:
    """``key_of`` all finished cells, on whatever data."""
    return frozenset(content_hash(body["cell"]) for _, body in finished_cells(results))
