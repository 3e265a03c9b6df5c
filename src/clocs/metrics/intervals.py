"""Confidence intervals from bootstrap replicates.

Intervals of metrics between 0 and 1 are normal on the logit scale, centered on the value. In simulated cohorts
(``tests/metrics/test_coverage.py``) they cover the true value more often than percentile intervals do, especially for
an AUC near 1. Intervals of differences and of unbounded metrics are symmetric.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from clocs.core.seeds import generator

Floats = npt.NDArray[np.float64]


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
    """Fraction of the replicates in which the difference is zero or negative."""


def normal_interval(value: float, replicate_values: Floats, clip: float | None, quantile: float) -> Interval:
    """Return an interval from the standard deviation of the replicates.

    Args:
        value: The value on all patients.
        replicate_values: Values of the replicates, of shape (R,).
        clip: For a metric between 0 and 1, the minimum distance of replicates from 0 and 1, because the logit of 1 is
            infinite; half of the contribution of one patient, or of one pair of patients. None: the interval is
            symmetric.
        quantile: Quantile of the normal distribution, see :func:`normal_quantile`.

    Returns:
        The interval. Its ends are NaN if it cannot be estimated: with undefined replicates and, on the logit scale,
        if the value is perfect or all replicates are equal.
    """
    return _around(value, quantile * float(_scaled(replicate_values, clip).std(ddof=1)), clip)


def binomial_interval(positives: int, count: int, level: float = 0.95) -> Interval:
    """Return a fraction with its interval after Wilson (1927), which is inside 0 and 1 for any count.

    Args:
        positives: Number of positives.
        count: Number of independent rows, at least 1.
        level: Confidence level.

    Example:
        >>> interval = binomial_interval(0, 10)
        >>> interval.low, round(interval.high, 3)
        (0.0, 0.278)
    """
    quantile, value = normal_quantile(level), positives / count
    center = (value + quantile**2 / (2 * count)) / (1 + quantile**2 / count)
    margin = (
        quantile * math.sqrt(value * (1 - value) / count + (quantile / (2 * count)) ** 2) / (1 + quantile**2 / count)
    )
    return Interval(value, max(0.0, min(center - margin, value)), min(1.0, max(center + margin, value)))


def combined_interval(
    by_run: Floats, replicate_values: Floats, clip: float | None, *, level: float = 0.95, seed: int = 0
) -> Interval:
    """Return the interval of the mean of D runs over patients and runs together.

    A run is, for example, a random draw of labelled patients. Each replicate has its own patients and the mean of
    D - 1 runs, drawn with replacement, which makes the variance of the mean over runs unbiased. Because there are few
    runs, the interval uses Student's distribution with the degrees of freedom of Welch and Satterthwaite. With one
    run, it is the interval over patients.

    Args:
        by_run: Value of each run on all patients, of shape (D,).
        replicate_values: Values of the replicates, of shape (D, R). Runs have the same patients in each replicate.
        clip: Like that of :func:`normal_interval`.
        level: Confidence level.
        seed: Seed of the draws of runs.

    Returns:
        The interval.
    """
    value, num_runs = float(np.mean(by_run)), len(replicate_values)
    if num_runs == 1:
        return normal_interval(value, replicate_values[0], clip, normal_quantile(level))
    drawn = draw_runs(replicate_values, seed)
    spread = float(_scaled(drawn, clip).std(ddof=1))
    run_variance = float(_scaled(np.asarray(by_run), clip).var(ddof=1)) / num_runs
    fraction = min(run_variance / spread**2, 1.0) if spread else 0.0
    return _around(value, student_quantile(level, num_runs, fraction) * spread, clip)


def draw_runs(replicate_values: Floats, seed: int) -> Floats:
    """Return the mean of D - 1 runs, drawn with replacement for each replicate, of shape (R,), from (D, R)."""
    num_runs, replicates = replicate_values.shape
    chosen = generator(seed, "runs").integers(0, num_runs, (max(num_runs - 1, 1), replicates))
    return np.asarray(replicate_values[chosen, np.arange(replicates)].mean(axis=0))


def normal_quantile(level: float) -> float:
    """Return the number of standard deviations around the mean that contain a fraction ``level`` of normal values."""
    if not 0 < level < 1:
        raise ValueError(f"Expected a level between 0 and 1, got {level}.")
    return NormalDist().inv_cdf((1 + level) / 2)


def degrees_of_freedom(num_runs: int, fraction: float) -> float:
    """Return the degrees of freedom of Welch and Satterthwaite.

    Args:
        num_runs: Number of runs.
        fraction: Fraction of the variance that comes from runs. The rest, from patients, is taken as known.

    Returns:
        The degrees of freedom; infinite if nearly all variance comes from patients.
    """
    return (num_runs - 1) / fraction**2 if fraction > 1e-6 else math.inf


def student_quantile(level: float, num_runs: int, fraction: float) -> float:
    """Return the quantile like :func:`normal_quantile`, for a variance that is partly estimated from few runs."""
    from scipy.stats import t as student

    return float(student.ppf((1 + level) / 2, degrees_of_freedom(num_runs, fraction)))


def _scaled(values: Floats, clip: float | None) -> Floats:
    from scipy.special import logit

    return values if clip is None else np.asarray(logit(np.clip(values, clip, 1 - clip)))


def _around(value: float, margin: float, clip: float | None) -> Interval:
    from scipy.special import expit

    if clip is None:
        return Interval(value, value - margin, value + margin)
    if value in (0.0, 1.0) or np.isclose(margin, 0):
        return Interval(value, math.nan, math.nan)
    center = float(_scaled(np.asarray(value), clip))
    low, high = np.minimum(expit(center - margin), value), np.maximum(expit(center + margin), value)
    return Interval(value, float(low), float(high))
