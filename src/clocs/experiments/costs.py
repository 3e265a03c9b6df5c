"""What cells will cost, estimated from finished cells that are similar."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import Final

from clocs.experiments.cells import Cell

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
