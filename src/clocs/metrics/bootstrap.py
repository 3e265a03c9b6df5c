"""How sure a result is: intervals over patients, who are drawn again with all their rows.

Rows of one patient are alike, so drawing rows would claim more certainty than there is. The spread of
the replicates is taken on the logit scale, around the value itself. In simulated cohorts
(``tests/metrics/test_bootstrap.py``) this covered the truth more often than percentiles of the replicates did,
above all where the AUC is near 1. With few positive patients every bootstrap is too sure: at 5, some 90 % of
the intervals that say 95 % hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.seeds import generator
from clocs.metrics.pooling import pool_truth
from clocs.metrics.ranking import Bools, Floats, Ranking, macro_average

Scores = npt.NDArray[np.floating]
Patients = npt.NDArray[np.int64]

FEWEST: Final = 3
"""Patients who must have a class, and lack it, for it to have an interval."""
MOST_DRAWS: Final = 100
"""Draws for each replicate wanted, before classes are held to be too rare for an interval."""


@dataclass(frozen=True)
class Interval:
    """A value and where the truth may lie. NaN ends: there was nothing to tell them from."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """For JSON: None where NaN."""
        return {name: None if math.isnan(number) else number for name, number in asdict(self).items()}


@dataclass(frozen=True)
class Difference(Interval):
    """An interval of a difference."""

    at_or_below_zero: float
    """Share of the replicates in which the first was no better than the second."""


@dataclass(frozen=True)
class Intervals:
    """What ``bootstrap_intervals`` finds."""

    macro_auc: Interval
    macro_average_precision: Interval
    auc: tuple[Interval, ...]
    """(K,), NaN for classes without positives or negatives, and NaN ends where there are too few."""
    average_precision: tuple[Interval, ...]
    """(K,)"""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "macro_auc": self.macro_auc.as_dict(),
            "macro_average_precision": self.macro_average_precision.as_dict(),
            "auc": [interval.as_dict() for interval in self.auc],
            "average_precision": [interval.as_dict() for interval in self.average_precision],
        }


def bootstrap_intervals(
    truth: Bools,
    scores: Scores | Sequence[Scores],
    patients: Patients,
    *,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Intervals:
    """Intervals of AUC and average precision, macro and per class, for truth and scores (N, K), patients (N,).

    Several score arrays are runs on the same rows: the values are means over them. A replicate in which
    a class lost all its positives or negatives is drawn again, so that every macro mean is over the same classes as
    the value; left out instead, a rare class that is hard would lift the mean of just those replicates. A class that
    fewer than ``FEWEST`` patients have, or lack, has no interval of its own: drawing so few again says nothing.
    """
    deviates = normal_quantile(level)
    rankings, cohort = _rankings(truth, scores), Cohort(truth, patients)
    value = _mean_measures(rankings, None)
    drawn = np.full((replicates, *value.shape), np.nan)
    for place, times in enumerate(cohort.draws(replicates, seed)):
        drawn[place] = _mean_measures(rankings, times[cohort.member])
    macro_auc, auc = _class_intervals(value[0], drawn[:, 0], cohort.half_pair, deviates)
    macro_precision, precision = _class_intervals(value[1], drawn[:, 1], cohort.half_pair, deviates)
    return Intervals(macro_auc, macro_precision, _known(auc, cohort.rare), _known(precision, cohort.rare))


def _known(intervals: tuple[Interval, ...], rare: Bools) -> tuple[Interval, ...]:
    return tuple(
        replace(each, low=math.nan, high=math.nan) if few else each for each, few in zip(intervals, rare, strict=True)
    )


def paired_difference(
    truth: Bools,
    scores_a: Scores | Sequence[Scores],
    scores_b: Scores | Sequence[Scores],
    patients: Patients,
    *,
    other: tuple[Bools, Patients] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """The macro AUC of a minus that of b, with both measured on the same drawn patients.

    Shapes and draws are those of ``bootstrap_intervals``. Several score arrays are runs with other seeds on the same
    rows: a side's AUC is the mean over its runs, in each replicate. The interval is about patients; what
    another set of seeds would change is not in it. It is symmetric, as a difference has no bound to stay within.
    ``other``: truth and patients of b, where the same patients have other rows there (longer frames, say).
    """
    deviates = normal_quantile(level)
    truth_b, patients_b = other or (truth, patients)
    first, second, cohort = _rankings(truth, scores_a), _rankings(truth_b, scores_b), Cohort(truth, patients)
    member_b = cohort.places(patients_b)

    def difference(weights: Floats | None, weights_b: Floats | None) -> float:
        return _mean_macro_auc(first, weights) - _mean_macro_auc(second, weights_b)

    value = difference(None, None)
    drawn = np.full(replicates, np.nan)
    for place, times in enumerate(cohort.draws(replicates, seed)):
        drawn[place] = difference(times[cohort.member], times[member_b])
    reach = deviates * float(drawn.std(ddof=1))
    share = float(np.mean(drawn <= 0)) if np.isfinite(drawn).all() else float("nan")
    return Difference(value, value - reach, value + reach, share)


def bootstrap_metrics(
    measure: Callable[[Floats], Floats], size: int, *, replicates: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[Interval, ...]:
    """Intervals of any M measures between 0 and 1 of ``size`` patients.

    ``measure`` takes how often each patient is drawn, (size,), and gives (M,), NaN where undefined. A draw that leaves
    undefined what is defined for all patients is made again.
    """
    deviates, value = normal_quantile(level), measure(np.ones(size))
    drawn, made = np.full((replicates, *value.shape), np.nan), 0
    for times in _draws(size, replicates, seed):
        found = measure(times)
        if np.array_equal(np.isnan(found), np.isnan(value)):
            drawn[made] = found
            made += 1
        if made == replicates:
            break
    each = zip(value.tolist(), drawn.T, strict=True)
    return tuple(logit_interval(single, column, 0.5 / size, deviates) for single, column in each)


def _draws(size: int, replicates: int, seed: int) -> Iterator[Floats]:
    """How often each of ``size`` patients is drawn, a draw each; many more than wanted, as some are of no use."""
    if replicates < 2:
        raise ValueError(f"replicates must be at least 2, not {replicates}")
    random = generator(seed, "bootstrap")
    for _ in range(MOST_DRAWS * replicates if size > 1 else 0):
        yield np.bincount(random.integers(0, size, size), minlength=size).astype(np.float64)


class Cohort:
    """Who has which rows, and draws of patients with all of theirs."""

    def __init__(self, truth: Bools, patients: Patients) -> None:
        known, sides = pool_truth(np.concatenate([truth, ~truth], axis=1), patients)
        self.size, self._known = len(known), known
        self.member = self.places(patients)
        positive, negative = np.split(sides.sum(axis=0), 2)
        pairs = positive * negative
        self.half_pair = 0.5 / np.where(pairs, pairs, np.nan)
        """(K,) half of what one pair of patients adds to an AUC; NaN for classes without a pair."""
        self.rare = np.minimum(positive, negative) < FEWEST
        """(K,) whether too few patients have a class, or lack it, for an interval of its own."""
        self._needed = sides[:, np.tile(pairs > 0, 2)].astype(np.float64)

    def places(self, patients: Patients) -> npt.NDArray[np.intp]:
        """(N,) which of the cohort's patients each row belongs to."""
        if not np.array_equal(np.unique(patients), self._known):
            raise ValueError("both sides of a comparison need the same patients")
        return np.searchsorted(self._known, patients)

    def draws(self, replicates: int, seed: int) -> Iterator[Floats]:
        """How often each patient is drawn, a draw each. Fewer than asked for, where nearly every draw loses a class."""
        made = 0
        for times in _draws(self.size, replicates, seed):
            if (times @ self._needed).all():
                yield times
                made += 1
            if made == replicates:
                return


def _rankings(truth: Bools, scores: Scores | Sequence[Scores]) -> list[Ranking]:
    runs = [scores] if isinstance(scores, np.ndarray) and scores.ndim == 2 else list(scores)
    if not runs:
        raise ValueError("needs the scores of at least one run")
    return [Ranking(truth, run) for run in runs]


def _mean_measures(rankings: list[Ranking], weights: Floats | None) -> Floats:
    """(2, K) AUC and average precision, mean over runs."""
    return np.asarray(np.mean([ranking.auc_and_average_precision(weights) for ranking in rankings], axis=0))


def _mean_macro_auc(rankings: list[Ranking], weights: Floats | None) -> float:
    return sum(macro_average(ranking.auc(weights)) for ranking in rankings) / len(rankings)


def _class_intervals(
    value: Floats, drawn: Floats, half_pair: Floats, deviates: float
) -> tuple[Interval, tuple[Interval, ...]]:
    """The macro interval and those of the classes, from values (K,) and their replicates (R, K)."""
    defined = ~np.isnan(value)
    whole = drawn[:, defined].sum(axis=1) / (defined.sum() or np.nan)
    each = zip(value.tolist(), drawn.T, half_pair.tolist(), strict=True)
    classes = tuple(logit_interval(*given, deviates) for given in each)
    return logit_interval(macro_average(value), whole, macro_average(half_pair), deviates), classes


def logit_interval(value: float, drawn: Floats, half_pair: float, deviates: float) -> Interval:
    """Normal on the logit scale, which keeps it within 0 and 1 and lets it be longer towards the middle.

    A replicate that is perfect by chance is taken to lack half a pair of patients, as the logit of 1 is infinite. A
    perfect value is perfect in every replicate; that, and any other in which all replicates agree, tells nothing of
    other patients: NaN ends.
    """
    from scipy.special import expit, logit

    centre, spread = (logit(np.clip(values, half_pair, 1 - half_pair)) for values in (value, drawn))
    reach = deviates * spread.std(ddof=1)
    if value in (0.0, 1.0) or np.isclose(reach, 0):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.minimum(expit(centre - reach), value), np.maximum(expit(centre + reach), value)
    return Interval(value, float(low), float(high))


def normal_quantile(level: float) -> float:
    """Standard deviations to either side that hold a share ``level`` of a normal distribution."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    return NormalDist().inv_cdf((1 + level) / 2)
