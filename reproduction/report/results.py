"""Finished cells for the report, found by their content and not by their name. No store is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError, StoreError
from clocs.experiments.status import Costs
from clocs.experiments.workspace import TABLE, CellTable
from clocs.metrics.replicates import Replicates
from reproduction.cells import AnyCell, Evaluation, Level, Pretraining, parse_cell
from reproduction.run_cell import REPLICATES_TABLE, best_kept_name

MAX_SEEDS: Final = 20
"""Number of seeds that are searched."""


@dataclass(frozen=True)
class FinishedCell:
    """A finished cell."""

    name: str
    cell: AnyCell
    row: Mapping[str, Any]
    replicates: Mapping[str, Replicates] = field(default_factory=dict)
    """Bootstrap replicates of the AUC of an evaluation, by level."""
    kept_replicates: Mapping[str, Replicates] = field(default_factory=dict)
    """Those of the kept encoder with the best validation AUC."""

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the cell."""
        found: Mapping[str, Any] = self.row["result"]
        return found

    @property
    def is_test(self) -> bool:
        """True if it is an evaluation on test patients."""
        return "test" in self.result

    @property
    def seconds(self) -> float | None:
        """Seconds of one core. None: not measured."""
        return self.row.get("seconds")

    @property
    def by_epochs(self) -> dict[int, Mapping[str, Any]]:
        """Results of the encoders that the pre-training kept, by the number of epochs."""
        return {int(epochs): found for epochs, found in sorted(self.row.get("by_epochs", {}).items(), key=_epochs)}

    @property
    def best_kept_epochs(self) -> int | None:
        """Number of epochs of the encoder with the best validation AUC. None: that of the lowest loss is the best."""
        kept = {epochs: float(found["validation_auc"]) for epochs, found in self.by_epochs.items()}
        best = max(kept, key=lambda epochs: kept[epochs], default=None)
        return None if best is None or kept[best] <= self.result["validation_auc"] else best

    def by_validation_auc(self) -> FinishedCell:
        """Return the cell with the result of the best encoder by validation AUC. Test patients do not choose it."""
        best = self.best_kept_epochs
        if best is None:
            return self
        return replace(self, row={**self.row, "result": self.by_epochs[best]}, replicates=self.kept_replicates)

    def auc(self, level: Level) -> Mapping[str, float | None]:
        """Return the macro AUC with the ends of its interval over patients."""
        assert isinstance(self.cell, Evaluation)
        found: Mapping[str, float | None] = self.result[self.cell.part][level]["auc"]
        return found

    def test_data(self) -> tuple[str, ...]:
        """Return the hashes of the store and split whose patients are tested."""
        return tuple(self.row["origin"]["data"][self.cell.dataset])


Runs = Mapping[int, FinishedCell]
"""Finished cells of one evaluation, by seed."""


class Results:
    """All finished cells of a results folder."""

    def __init__(self, folder: Path, *, may_be_empty: bool = False) -> None:
        if not may_be_empty and not (folder / TABLE).is_file():
            raise StoreError(f"{folder} has no {TABLE}. Run 'python -m reproduction run NAME' first.")
        self.folder = folder
        self._by_key: dict[str, FinishedCell] = {}
        replicates = dict(CellTable(folder / REPLICATES_TABLE).rows())
        for name, row in CellTable(folder / TABLE).rows():
            drawn, kept = (_replicates(replicates.get(each, {})) for each in (name, best_kept_name(name)))
            self._add(FinishedCell(name, _parse_row(name, row), row, drawn, kept))

    def _add(self, found: FinishedCell) -> None:
        known = self._by_key.setdefault(found.cell.key, found)
        if known is not found:
            raise ConfigError(f"{known.name} and {found.name} are the same cell on other data; keep one of them.")

    @cached_property
    def finished(self) -> tuple[FinishedCell, ...]:
        """All cells, by name."""
        return tuple(sorted(self._by_key.values(), key=lambda each: each.name))

    @property
    def tested(self) -> tuple[FinishedCell, ...]:
        """Evaluations on test patients."""
        return tuple(each for each in self.finished if each.is_test)

    def get(self, cell: AnyCell) -> FinishedCell | None:
        """Return the result of a cell, or None."""
        return self._by_key.get(cell.key)

    def seeds(self, cell: Callable[[int], AnyCell]) -> Runs:
        """Return the results of a cell by seed."""
        found = {seed: self.get(cell(seed)) for seed in range(MAX_SEEDS)}
        return {seed: each for seed, each in found.items() if each is not None}

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the finished cells."""
        return frozenset(self._by_key)

    def training_seconds(self, cell: AnyCell) -> float | None:
        """Return the time of a cell with that of the training behind a replaced last layer; None if unknown."""
        parts = (cell.trained, cell) if isinstance(cell, Pretraining) and cell.pca else (cell,)
        times = [found.seconds if (found := self.get(part)) is not None else None for part in parts]
        known = [time for time in times if time is not None]
        return sum(known) if len(known) == len(times) else None

    @cached_property
    def costs(self) -> Costs:
        """Costs of the finished cells."""
        costs = Costs()
        for each in self.finished:
            costs.learn(each.cell, each.seconds)
        return costs


def _epochs(entry: tuple[str, Any]) -> int:
    return int(entry[0])


def _replicates(stored: Mapping[str, Any]) -> dict[str, Replicates]:
    return {level: Replicates.from_dict(each) for level, each in stored.items()}


def _parse_row(name: str, row: Mapping[str, Any]) -> AnyCell:
    try:
        _ = row["result"], row["origin"]
        return parse_cell(row["cell"])
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"{name} is not a finished cell of the reproduction: {error}") from error
