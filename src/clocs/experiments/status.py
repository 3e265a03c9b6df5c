"""The status of a grid: what is done, what the rest will cost, and which inputs are missing.

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
    """Seconds of one core, and which finished cells they are estimated from."""

    seconds: float
    basis: str
    """A description of the group of similar cells, or ``DEFAULT``."""


class Costs:
    """Learns from finished cells and estimates others. Cost is taken to grow with the workload."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
        """Seconds for a unit of work of each finished cell, by group."""

    def learn(self, cell: Cell, seconds: float | None) -> None:
        """Add a finished cell. None: its time was not measured."""
        work = cell.workload()
        if seconds is not None and seconds >= 0 and work.amount:
            for _, key in work.similar:
                self._rates[key].append(float(seconds) / work.amount)

    def estimate(self, cell: Cell) -> Estimate:
        """Estimate the seconds that a cell will take."""
        work = cell.workload()
        for basis, key in work.similar:
            if key in self._rates:  # the median: a run that was stopped for an hour says nothing about others
                return Estimate(work.amount * median(self._rates[key]), basis)
        return Estimate(work.amount * work.default_rate, DEFAULT)


@dataclass(frozen=True)
class Status:
    """The status of one cell."""

    done: bool
    missing_inputs: tuple[str, ...]
    cost: Estimate


def statuses(
    cells: Iterable[Cell], workspace: Workspace, costs: Costs, known_keys: Container[str] = ()
) -> dict[str, Status]:
    """Return the status of each cell and of those it requires, each once, by key.

    Without its stores, the name of a cell is not known. A cell then counts as done if ``known_keys`` has its key, so
    that results which came with the project are seen where no data are.
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
    """Count cells that are done and to do, with their cost and missing inputs, as JSON."""
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
        "missing_inputs": dict(Counter(each for status in waiting for each in status.missing_inputs)),
    }


def _hours(some: Iterable[Status]) -> float:
    return sum(status.cost.seconds for status in some) / 3600
