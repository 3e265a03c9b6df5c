"""Bootstrap intervals of metrics. Patients are resampled with all of their rows.

Rows of a patient are similar, so intervals from resampled rows would be too narrow. Intervals are normal on the logit
scale, centered on the value. In simulated cohorts (``tests/metrics/test_coverage.py``) they cover the true value more
often than percentile intervals do, especially for an AUC near 1. With few positive patients, all bootstrap intervals
are too narrow: with 5, a 95 % interval covers the true value in about 90 % of the cohorts.
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

MIN_PATIENTS: Final = 3
"""Minimum number of patients with a class, and of patients without it, for an interval of the class."""
MAX_DRAWS_PER_REPLICATE: Final = 100
"""Maximum number of draws per replicate. If they do not suffice, classes are too rare for an interval."""


@dataclass(frozen=True)
class Interval:
    """A value with a confidence interval."""

    value: float
    """The value on all patients."""
    low: float
    """Lower end; NaN if it cannot be estimated."""
    high: float
    """Upper end; NaN if it cannot be estimated."""

    def as_dict(self) -> dict[str, float | None]:
        """Return the interval for JSON, with None for NaN."""
        return {name: None if math.isnan(number) else number for name, number in asdict(self).items()}


@dataclass(frozen=True)
class Difference(Interval):
    """A difference with a confidence interval."""

    at_or_below_zero: float
    """Fraction of the replicates in which the first side is not better than the second."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of AUC and average precision."""

    macro_auc: Interval
    """Mean AUC of the classes."""
    macro_average_precision: Interval
    """Mean average precision of the classes."""
    auc: tuple[Interval, ...]
    """AUC of each class, of length K. NaN without positives or negatives; NaN ends with too few patients."""
    average_precision: tuple[Interval, ...]
    """Average precision of each class, of length K."""

    def as_dict(self) -> dict[str, Any]:
        """Return the intervals for JSON."""
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
    """Return bootstrap intervals of AUC and average precision, as macro averages and per class.

    A draw without positives or negatives of a class is repeated, so that every replicate averages the same classes. If
    such classes were skipped instead, a rare and difficult class would raise the average of some replicates.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K), or a sequence of them for several runs. Metrics are averaged over runs.
        patients: Patient of each row, of shape (N,).
        replicates: Number of replicates.
        level: Confidence level.
        seed: Seed of the draws.

    Returns:
        The intervals. Classes with fewer than ``MIN_PATIENTS`` positive or negative patients have NaN ends.

    Raises:
        ValueError: Shapes do not match, or an option is out of range.
    """
    quantile = normal_quantile(level)
    rankings, resampler = _rankings(truth, scores), PatientResampler(truth, patients)
    value = _mean_metrics(rankings, None)
    replicate_values = np.full((replicates, *value.shape), np.nan)
    for index, counts in enumerate(resampler.draws(replicates, seed)):
        replicate_values[index] = _mean_metrics(rankings, counts[resampler.member])
    macro_auc, auc = _class_intervals(value[0], replicate_values[:, 0], resampler.half_pair, quantile)
    macro_precision, precision = _class_intervals(value[1], replicate_values[:, 1], resampler.half_pair, quantile)
    return Intervals(
        macro_auc, macro_precision, _without_rare(auc, resampler.rare), _without_rare(precision, resampler.rare)
    )


def _without_rare(intervals: tuple[Interval, ...], rare: Bools) -> tuple[Interval, ...]:
    return tuple(
        replace(interval, low=math.nan, high=math.nan) if is_rare else interval
        for interval, is_rare in zip(intervals, rare, strict=True)
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
    """Return the macro AUC of a minus that of b, with an interval from the same draws of patients for both.

    The interval is symmetric and accounts for patients, not for the seeds of training.

    Args:
        truth: Labels of shape (N, K).
        scores_a: Scores of side a of shape (N, K), or a sequence of them for several runs, whose AUCs are averaged.
        scores_b: Scores of side b in the same form.
        patients: Patient of each row, of shape (N,).
        other: Labels and patients of side b, if its rows differ (for example, longer frames); None for those of a.
        replicates: Number of replicates.
        level: Confidence level.
        seed: Seed of the draws.

    Returns:
        The difference.

    Raises:
        ValueError: The sides have different patients, shapes do not match, or an option is out of range.
    """
    quantile = normal_quantile(level)
    truth_b, patients_b = other or (truth, patients)
    first, second, resampler = (
        _rankings(truth, scores_a),
        _rankings(truth_b, scores_b),
        PatientResampler(truth, patients),
    )
    member_b = resampler.patient_indices(patients_b)

    def difference(weights: Floats | None, weights_b: Floats | None) -> float:
        return _mean_macro_auc(first, weights) - _mean_macro_auc(second, weights_b)

    value = difference(None, None)
    replicate_values = np.full(replicates, np.nan)
    for index, counts in enumerate(resampler.draws(replicates, seed)):
        replicate_values[index] = difference(counts[resampler.member], counts[member_b])
    margin = quantile * float(replicate_values.std(ddof=1))
    fraction = float(np.mean(replicate_values <= 0)) if np.isfinite(replicate_values).all() else float("nan")
    return Difference(value, value - margin, value + margin, fraction)


def bootstrap_metrics(
    measure: Callable[[Floats], Floats], size: int, *, replicates: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[Interval, ...]:
    """Return bootstrap intervals of any M metrics between 0 and 1.

    A draw in which a metric is undefined is repeated, if the metric is defined on all patients.

    Args:
        measure: Function of the number of times that each patient is drawn, of shape (size,). It returns the metrics,
            of shape (M,), with NaN for undefined ones.
        size: Number of patients.
        replicates: Number of replicates.
        level: Confidence level.
        seed: Seed of the draws.

    Returns:
        An interval for each metric.
    """
    quantile, value = normal_quantile(level), measure(np.ones(size))
    replicate_values, num_replicates = np.full((replicates, *value.shape), np.nan), 0
    for counts in _draw_counts(size, replicates, seed):
        metrics = measure(counts)
        if np.array_equal(np.isnan(metrics), np.isnan(value)):
            replicate_values[num_replicates] = metrics
            num_replicates += 1
        if num_replicates == replicates:
            break
    columns = zip(value.tolist(), replicate_values.T, strict=True)
    return tuple(logit_interval(single, column, 0.5 / size, quantile) for single, column in columns)


def _draw_counts(size: int, replicates: int, seed: int) -> Iterator[Floats]:
    """Yield how often each of ``size`` patients is drawn, with spare draws, because some are rejected."""
    if replicates < 2:
        raise ValueError(f"Expected replicates of at least 2, got {replicates}.")
    random = generator(seed, "bootstrap")
    for _ in range(MAX_DRAWS_PER_REPLICATE * replicates if size > 1 else 0):
        yield np.bincount(random.integers(0, size, size), minlength=size).astype(np.float64)


class PatientResampler:
    """Random draws of patients with all of their rows.

    Args:
        truth: Labels of shape (N, K).
        patients: Patient of each row, of shape (N,).
    """

    def __init__(self, truth: Bools, patients: Patients) -> None:
        self._patients, sides = pool_truth(np.concatenate([truth, ~truth], axis=1), patients)
        self.size = len(self._patients)
        self.member = self.patient_indices(patients)
        """Index of the patient of each row, of shape (N,)."""
        positive, negative = np.split(sides.sum(axis=0), 2)
        pairs = positive * negative
        self.half_pair = 0.5 / np.where(pairs, pairs, np.nan)
        """Half of the contribution of a pair of patients to the AUC of each class, of shape (K,); NaN without pairs."""
        self.rare = np.minimum(positive, negative) < MIN_PATIENTS
        """Whether a class has too few positive or negative patients for an interval, of shape (K,)."""
        self._needed = sides[:, np.tile(pairs > 0, 2)].astype(np.float64)

    def patient_indices(self, patients: Patients) -> npt.NDArray[np.intp]:
        """Return the index of the patient of each row, of shape (N,)."""
        if not np.array_equal(np.unique(patients), self._patients):
            raise ValueError("Both sides of a comparison need the same patients.")
        return np.searchsorted(self._patients, patients)

    def draws(self, replicates: int, seed: int) -> Iterator[Floats]:
        """Yield how often each patient is drawn, of shape (patients,). Draws without all classes are skipped.

        There are fewer draws than ``replicates`` if nearly every draw loses a class.
        """
        num_draws = 0
        for counts in _draw_counts(self.size, replicates, seed):
            if (counts @ self._needed).all():
                yield counts
                num_draws += 1
            if num_draws == replicates:
                return


def _rankings(truth: Bools, scores: Scores | Sequence[Scores]) -> list[Ranking]:
    runs = [scores] if isinstance(scores, np.ndarray) and scores.ndim == 2 else list(scores)
    if not runs:
        raise ValueError("Expected the scores of at least one run.")
    return [Ranking(truth, run) for run in runs]


def _mean_metrics(rankings: list[Ranking], weights: Floats | None) -> Floats:
    """Return AUC and average precision, averaged over runs, of shape (2, K)."""
    return np.asarray(np.mean([ranking.auc_and_average_precision(weights) for ranking in rankings], axis=0))


def _mean_macro_auc(rankings: list[Ranking], weights: Floats | None) -> float:
    return sum(macro_average(ranking.auc(weights)) for ranking in rankings) / len(rankings)


def _class_intervals(
    value: Floats, replicate_values: Floats, half_pair: Floats, quantile: float
) -> tuple[Interval, tuple[Interval, ...]]:
    """Return the macro interval and those of the classes, from values (K,) and their replicates (R, K)."""
    defined = ~np.isnan(value)
    macro = replicate_values[:, defined].sum(axis=1) / (defined.sum() or np.nan)
    columns = zip(value.tolist(), replicate_values.T, half_pair.tolist(), strict=True)
    classes = tuple(logit_interval(*column, quantile) for column in columns)
    return logit_interval(macro_average(value), macro, macro_average(half_pair), quantile), classes


def logit_interval(value: float, replicate_values: Floats, half_pair: float, quantile: float) -> Interval:
    """Return an interval that is normal on the logit scale, which keeps it between 0 and 1.

    Perfect replicates are moved by half a pair of patients, because the logit of 1 is infinite. If the value is perfect
    or all replicates are equal, the interval cannot be estimated.

    Args:
        value: The value on all patients.
        replicate_values: Values of the replicates, of shape (R,).
        half_pair: Half of the contribution of one pair of patients to the value.
        quantile: Quantile of the normal distribution, see :func:`normal_quantile`.

    Returns:
        The interval. Its ends are NaN if it cannot be estimated.
    """
    from scipy.special import expit, logit

    center, spread = (logit(np.clip(values, half_pair, 1 - half_pair)) for values in (value, replicate_values))
    margin = quantile * spread.std(ddof=1)
    if value in (0.0, 1.0) or np.isclose(margin, 0):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.minimum(expit(center - margin), value), np.maximum(expit(center + margin), value)
    return Interval(value, float(low), float(high))


def normal_quantile(level: float) -> float:
    """Return the number of standard deviations around the mean that contain a fraction ``level`` of normal values."""
    if not 0 < level < 1:
        raise ValueError(f"Expected a level between 0 and 1, got {level}.")
    return NormalDist().inv_cdf((1 + level) / 2)
