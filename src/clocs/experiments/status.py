"""Status of a grid: finished cells, cost of the others, and missing inputs.

The cost of a cell is estimated from finished cells that are similar.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from clocs.experiments.cells import Cell, chain_of
from clocs.experiments.workspace import Workspace

DEFAULT: Final = "default"


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a cell."""

    seconds: float
    """Seconds of one core."""
    basis: str
    """A description of the group of similar cells, or ``DEFAULT``."""


class Costs:
    """Costs of cells, estimated from finished ones in proportion to the workload."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
        """Seconds per unit of work of each finished cell, by group."""

    def learn(self, cell: Cell, seconds: float | None) -> None:
        """Add a finished cell and its time. None: the time was not measured."""
        work = cell.workload()
        if seconds is not None and seconds >= 0 and work.amount:
            for _, key in work.similar:
                self._rates[key].append(float(seconds) / work.amount)

    def estimate(self, cell: Cell) -> Estimate:
        """Estimate the seconds that a cell will take."""
        work = cell.workload()
        for basis, key in work.similar:
            if key in self._rates:  # the median ignores runs that were paused
                return Estimate(work.amount * median(self._rates[key]), basis)
        return Estimate(work.amount * work.default_rate, DEFAULT)


@dataclass(frozen=True)
class Status:
    """The status of one cell."""

    done: bool
    """True if the cell has a result."""
    missing_inputs: tuple[str, ...]
    """Descriptions of missing inputs."""
    cost: Estimate
    """Estimated cost."""


def statuses(
    cells: Iterable[Cell], workspace: Workspace, costs: Costs, known_keys: Container[str] = ()
) -> dict[str, Status]:
    """Return the status of each cell and of the cells it requires, by key.

    The name of a cell depends on its stores. Without stores, a cell counts as done if ``known_keys`` has its key, so
    that committed results are found without data.

    Args:
        cells: Cells of the grid.
        workspace: Folders of the grid.
        costs: Costs of finished cells.
        known_keys: Keys of cells that have a result.
    """
    found: dict[str, Status] = {}
    for cell in cells:
        for part in chain_of(cell):
            if part.key not in found:
                named = all(workspace.has_store(dataset) for dataset in part.datasets)
                done = workspace.result(part) is not None if named else part.key in known_keys
                found[part.key] = Status(done, tuple(part.missing_inputs(workspace)), costs.estimate(part))
    return found


def totals(known: Mapping[str, Status]) -> dict[str, Any]:
    """Return the number of cells that are done and to do, with cost and missing inputs, as JSON."""
    waiting = [status for status in known.values() if not status.done]
    ready = [status for status in waiting if not status.missing_inputs]
    return {
        "cells": len(known),
        "done": len(known) - len(waiting),
        "to_do": len(waiting),
        "runnable": len(ready),
        "core_hours": _hours(waiting),
        "runnable_core_hours": _hours(ready),
        "estimated_from": dict(Counter(status.cost.basis for status in waiting)),
        "missing_inputs": dict(Counter(name for status in waiting for name in status.missing_inputs)),
    }


def _hours(cells: Iterable[Status]) -> float:
    return sum(status.cost.seconds for status in cells) / 3600
