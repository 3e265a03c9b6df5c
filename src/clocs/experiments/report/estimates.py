"""Means over seeds and differences between methods, with intervals over the same patients.

Drawing patients takes seconds for each, so what was found is kept beside the results (``intervals.json``), with the
hashes of the scores that it came from: a report is made anew without computing, and nothing stale is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, TypeVar

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import canonical_json, content_hash, file_hash, write_bytes
from clocs.evaluation.compact_scores import load_compact
from clocs.evaluation.judgement import levels
from clocs.evaluation.results import differences
from clocs.evaluation.rows import Rows
from clocs.experiments.cells import EPOCHS
from clocs.experiments.paper_numbers import Condition
from clocs.experiments.report.reading import LEVELS, Finished, Level, Results, Runs
from clocs.metrics.bootstrap import Interval, bootstrap_intervals
from clocs.metrics.significance import Effect, over_patients_and_seeds

Key = TypeVar("Key")
FILE: Final = "intervals.json"
CODE: Final = 1
"""Raise it when intervals change for the same scores."""
REPLICATES: Final = 1000
DIGITS: Final = 6
"""Kept of each number: far below any interval, and the same on all machines."""
UNKNOWN: Final = float("nan")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Mean(Interval):
    """A mean AUC over seeds, with its interval over patients."""

    by_seed: tuple[float, ...]

    @property
    def deviation(self) -> float | None:
        """Over seeds, as the paper has it; None with one."""
        return stdev(self.by_seed) if len(self.by_seed) > 1 else None


class Estimates:
    """Looked up, or computed from the scores."""

    def __init__(self, results: Results, say: Say = lambda text: None) -> None:
        self.results, self._epochs = results, EPOCHS
        self._path, self._say = results.folder / FILE, say
        self._kept = _read(self._path)
        self._used: dict[str, Any] = {}
        self._hashes: dict[Path, str] = {}

    def after(self, epochs: int) -> Estimates:
        """The same for pre-trainings of so many epochs at most; what they compute is kept together."""
        other = copy(self)
        other._epochs = epochs
        return other

    def runs(self, condition: Condition, preset: str = "paper") -> Runs:
        """All seeds of one of the paper's experiments."""
        return self.results.evaluations(condition, preset, self._epochs)

    def auc(self, condition: Condition, level: Level, preset: str = "paper") -> Mean | None:
        """What was found for one of the paper's experiments."""
        return self.mean(self.runs(condition, preset), level)

    def above(self, first: Condition, second: Condition, level: Level) -> Effect | None:
        """By how much one experiment is above another."""
        return self.difference(self.runs(first), self.runs(second), level)

    def mean(self, runs: Runs, level: Level) -> Mean | None:
        """Of one evaluation; None where no seed of it is done. Without scores, several seeds have no interval."""
        if not runs:
            return None
        told = [run.auc(level) for run in runs.values()]
        by_seed = tuple(_number(each["value"]) for each in told)
        if len(told) == 1:
            return Mean(by_seed[0], _number(told[0]["low"]), _number(told[0]["high"]), by_seed)
        found = self._interval(list(runs.values()), [], level)
        return Mean(fmean(by_seed), found.low, found.high, by_seed)

    def difference(self, first: Runs, second: Runs, level: Level) -> Effect | None:
        """Of two evaluations on the same patients, over the seeds that both have; None where there are none.

        Without scores it has a value alone.
        """
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            return None
        a, b = ([runs[seed] for seed in seeds] for runs in (first, second))
        values = [[_number(run.auc(level)["value"]) for run in side] for side in (a, b)]
        by_seed = [one - other for one, other in zip(*values, strict=True)]
        patients = self._interval(a, b, level)
        if math.isnan(patients.low):
            return Effect(fmean(by_seed), UNKNOWN, UNKNOWN, UNKNOWN)
        return over_patients_and_seeds(Interval(fmean(by_seed), patients.low, patients.high), by_seed)

    def save(self, *, sweep: bool = True) -> None:
        """Keep what was asked for; ``sweep``: and nothing else."""
        raw = canonical_json(self._used if sweep else {**self._kept, **self._used})
        if not self._path.exists() or self._path.read_bytes() != raw:
            write_bytes(self._path, raw)

    def _interval(self, first: Sequence[Finished], second: Sequence[Finished], level: Level) -> Interval:
        runs = (*first, *second)
        if len({run.test_data() for run in runs}) > 1:
            names = f"{runs[0].name} and {runs[-1].name}"
            raise ConfigError(f"{names} were judged by different patients: another store or split. Keep one kind")
        if not all(run.scores.exists() for run in runs):
            return Interval(UNKNOWN, UNKNOWN, UNKNOWN)
        told = {"first": [run.name for run in first], "second": [run.name for run in second]}
        origin = {**told, "scores": [self._hash(run.scores) for run in runs], "replicates": REPLICATES, "code": CODE}
        key = content_hash(origin)[:16]
        if key not in self._used:
            self._used[key] = self._kept.get(key) or {**told, **self._computed(first, second)}
        return Interval(**{name: _number(value) for name, value in self._used[key][level].items()})

    def _hash(self, path: Path) -> str:
        if path not in self._hashes:
            self._hashes[path] = file_hash(path)
        return self._hashes[path]

    def _computed(self, first: Sequence[Finished], second: Sequence[Finished]) -> dict[str, Any]:
        self._say(f"drawing patients: {first[0].name}" + (f" against {second[0].name}" if second else ""))
        sides = [[load_compact(run.scores) for run in side] for side in (first, second)]
        found: Mapping[str, Interval]
        if second:
            found = differences(*sides, among=LEVELS, replicates=REPLICATES)
        else:
            found = {level: mean_interval(sides[0], level) for level in LEVELS}
        return {level: _rounded(interval) for level, interval in found.items()}


def over_shared_seeds(runs: Mapping[Key, Runs]) -> dict[Key, Runs]:
    """Each with the seeds alone that all have who have any: seeds may differ more than what is compared."""
    known = [set(each) for each in runs.values() if each]
    shared = set.intersection(*known) if known else set()
    return {key: {seed: run for seed, run in each.items() if seed in shared} for key, each in runs.items()}


def mean_interval(runs: Sequence[Rows], level: Level) -> Interval:
    """Of the mean AUC of runs with several seeds, over patients."""
    rows = [dict(levels(run))[level] for run in runs]
    values = [run.values for run in rows]
    return bootstrap_intervals(rows[0].truth, values, rows[0].patient, replicates=REPLICATES).macro_auc


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {error}. Delete it: it is computed again") from error


def _rounded(interval: Interval) -> dict[str, float | None]:
    told = {name: interval.as_dict()[name] for name in ("value", "low", "high")}
    return {name: None if value is None else round(value, DIGITS) for name, value in told.items()}


def _number(value: float | None) -> float:
    return UNKNOWN if value is None else float(value)
