"""The size of the paper: which evaluations and pre-trainings its tables and figures are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from reproduction.paper_numbers import Condition, PretrainingCondition, paper


def conditions(*, figures: bool = True) -> tuple[Condition, ...]:
    """The paper's grid: every evaluation once, of the tables and of the figures that say enough."""
    found = [result.condition for result in paper().results]
    if figures:
        found += [each for figure in paper().figures for panel in figure.panels for each in panel.conditions()]
    return tuple(dict.fromkeys(found))


def pretrainings(*, figures: bool = True) -> tuple[PretrainingCondition, ...]:
    """Every pre-training that the grid needs, once."""
    needed = (condition.pretrained for condition in conditions(figures=figures))
    return tuple(dict.fromkeys(each for each in needed if each is not None))


@dataclass(frozen=True)
class GridSize:
    """Runs, with all seeds, by number of leads."""

    pretrainings: dict[int, int]
    linear: dict[int, int]
    finetune: dict[int, int]

    @property
    def total(self) -> int:
        """Of all kinds."""
        return sum(sum(kind.values()) for kind in (self.pretrainings, self.linear, self.finetune))


def grid_size(*, seeds: int | None = None, figures: bool = True) -> GridSize:
    """How many runs the grid is, with the paper's number of seeds or another."""
    times = paper().seeds if seeds is None else seeds
    grid = conditions(figures=figures)
    return GridSize(
        _by_leads((each.leads for each in pretrainings(figures=figures)), times),
        _by_leads((each.leads for each in grid if each.protocol == "linear"), times),
        _by_leads((each.leads for each in grid if each.protocol == "finetune"), times),
    )


def _by_leads(leads: Iterable[int], times: int) -> dict[int, int]:
    return {number: count * times for number, count in sorted(Counter(leads).items())}
