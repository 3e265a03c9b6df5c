"""Means over seeds and differences between methods, with intervals over the same patients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final, Literal, TypeVar

from clocs.core.errors import ConfigError
from clocs.metrics.intervals import Interval
from clocs.metrics.replicates import Replicates, difference_interval, mean_interval
from clocs.metrics.significance import Effect, patient_and_seed_effect
from reproduction.cells import Evaluation, Level
from reproduction.report.results import FinishedCell, Results, Runs

Key = TypeVar("Key")
UNKNOWN: Final = float("nan")
Seeded = Callable[[int], Evaluation]
"""Function from a seed to an evaluation."""
Choice = Literal["lowest loss", "best validation AUC"]
CHOICES: Final[tuple[Choice, ...]] = ("lowest loss", "best validation AUC")
"""Ways to choose the encoder of a pre-training. Test patients choose none."""


@dataclass(frozen=True)
class Mean(Interval):
    """A mean AUC over seeds, with its interval over patients."""

    by_seed: tuple[float, ...]

    @property
    def deviation(self) -> float | None:
        """Standard deviation over seeds, as in the paper. None: there is one seed."""
        return stdev(self.by_seed) if len(self.by_seed) > 1 else None


class Estimates:
    """Means and differences of results."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def runs(self, cell: Seeded, choice: Choice = "lowest loss") -> Runs:
        """Return all seeds of an evaluation.

        Args:
            cell: The evaluation by seed.
            choice: Encoder of the pre-training. Fine-tuning always starts from that of the lowest loss.
        """
        runs = self.results.seeds(cell)
        if choice == "lowest loss":
            return runs
        return {seed: run.by_validation_auc() for seed, run in runs.items()}

    def auc(self, cell: Seeded, level: Level, choice: Choice = "lowest loss") -> Mean | None:
        """Return the mean AUC of an evaluation over its seeds."""
        return self.mean(self.runs(cell, choice), level)

    def mean(self, runs: Runs, level: Level) -> Mean | None:
        """Return the mean AUC of one evaluation, or None without a result.

        Without replicates, a mean of several seeds has no interval.
        """
        if not runs:
            return None
        found = [run.auc(level) for run in runs.values()]
        by_seed = tuple(_number(each["value"]) for each in found)
        if len(found) == 1:
            return Mean(by_seed[0], _number(found[0]["low"]), _number(found[0]["high"]), by_seed)
        drawn, value = _replicates(list(runs.values()), level), fmean(by_seed)
        if drawn is None:
            return Mean(value, UNKNOWN, UNKNOWN, by_seed)
        interval = mean_interval(value, drawn)
        return Mean(value, interval.low, interval.high, by_seed)

    def difference(self, first: Runs, second: Runs, level: Level) -> Effect | None:
        """Return the difference of two evaluations on the same patients, over the seeds that both have.

        None without a common seed. Without replicates, a difference has neither interval nor p-value.
        """
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        sides = [[runs[seed] for seed in seeds] for runs in (first, second)]
        values = [[_number(run.auc(level)["value"]) for run in side] for side in sides]
        by_seed = [one - other for one, other in zip(*values, strict=True)]
        drawn = _replicates([*sides[0], *sides[1]], level)
        if drawn is None:
            return Effect(fmean(by_seed), UNKNOWN, UNKNOWN, UNKNOWN)
        interval = difference_interval(fmean(by_seed), drawn[: len(seeds)], drawn[len(seeds) :])
        if math.isnan(interval.low):
            return Effect(interval.value, UNKNOWN, UNKNOWN, UNKNOWN)
        return patient_and_seed_effect(interval, by_seed)


def restrict_to_common_seeds(runs: Mapping[Key, Runs]) -> dict[Key, Runs]:
    """Restrict runs to the seeds that all of them have. Entries without runs are ignored."""
    known = [set(each) for each in runs.values() if each]
    shared = set.intersection(*known) if known else set()
    return {key: {seed: run for seed, run in each.items() if seed in shared} for key, each in runs.items()}


def _replicates(runs: Sequence[FinishedCell], level: Level) -> list[Replicates] | None:
    """Return the replicates of each run, or None if one has none."""
    if len({run.test_data() for run in runs}) > 1:
        names = f"{runs[0].name} and {runs[-1].name}"
        raise ConfigError(f"{names} were tested on different stores or splits. Keep the results of one.")
    found = [run.replicates[level] for run in runs if level in run.replicates]
    return found if len(found) == len(runs) else None


def _number(value: float | None) -> float:
    return UNKNOWN if value is None else float(value)
