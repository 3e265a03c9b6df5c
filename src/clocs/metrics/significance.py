"""One-sided significance tests of differences and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clocs.metrics.intervals import Interval, degrees_of_freedom, normal_quantile, student_quantile


@dataclass(frozen=True)
class Effect(Interval):
    """A difference with its interval and one-sided p-values."""

    p_above: float
    """p-value of the null hypothesis that the true difference is zero or negative."""

    @property
    def p_below(self) -> float:
        """Return the p-value of the null hypothesis that the true difference is zero or positive."""
        return 1 - self.p_above


def patient_and_seed_effect(patients: Interval, by_seed: Sequence[float], *, level: float = 0.95) -> Effect:
    """Test a mean difference of runs with several seeds against the variation of patients and seeds.

    The variances of patients and seeds are added. Because there are few seeds, the interval uses Student's distribution
    with the degrees of freedom of Welch and Satterthwaite. With one seed, the interval is that over patients. In
    simulations, 95 % intervals of three seeds cover the true value in 94 % of the cases if seeds vary as much as
    patients, and in 91 % (two seeds: 87 %) if they vary three times as much.

    Args:
        patients: Symmetric interval of the mean difference over patients, at the same ``level``.
        by_seed: Difference for each seed on all patients.
        level: Confidence level.

    Returns:
        The difference with its interval and p-values.
    """
    from scipy.stats import t as student

    patient_variance = ((patients.high - patients.low) / 2 / normal_quantile(level)) ** 2
    num_seeds = len(by_seed)
    seed_variance = float(np.var(by_seed, ddof=1)) / num_seeds if num_seeds > 1 else 0.0
    variance = patient_variance + seed_variance
    fraction = seed_variance / variance if variance else 0.0
    error, value = math.sqrt(variance), patients.value
    margin = student_quantile(level, num_seeds, fraction) * error
    freedom = degrees_of_freedom(num_seeds, fraction)
    p_above = float(student.sf(value / error, freedom)) if error else 0.5 - 0.5 * np.sign(value)
    return Effect(value, value - margin, value + margin, float(p_above))


def independent_difference(first: Interval, second: Interval, *, level: float = 0.95) -> Effect:
    """Test the difference of two values that were measured on different patients.

    Args:
        first: First value, with a normal interval.
        second: Second value, with a normal interval.
        level: Confidence level of all intervals.

    Returns:
        The first minus the second value, with its interval and p-values.
    """
    quantile = normal_quantile(level)
    margin = quantile * (math.hypot(first.high - first.low, second.high - second.low) / 2 / quantile)
    value = first.value - second.value
    return patient_and_seed_effect(Interval(value, value - margin, value + margin), (), level=level)


def sign_test(wins: int, trials: int, chance: float = 0.5) -> float:
    """Return the probability of this number of wins or more by chance.

    Args:
        wins: Number of wins. A tie is not a win.
        trials: Number of trials.
        chance: Probability of a win by chance.

    Returns:
        The p-value.

    Raises:
        ValueError: The number of wins is not between 0 and the number of trials.
    """
    from scipy.stats import binom

    if not 0 <= wins <= trials:
        raise ValueError(f"Expected wins from 0 to {trials}, got {wins}.")
    return float(binom.sf(wins - 1, trials, chance))
