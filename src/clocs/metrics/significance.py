"""How far chance explains a difference, a count or an order: p-values in closed form.

All are one-sided, as what they are asked about has a direction ("is above").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.metrics.bootstrap import Interval

NEGLIGIBLE: Final = 1e-6
"""Share of the variance below which seeds are taken to add nothing."""


@dataclass(frozen=True)
class Effect(Interval):
    """A difference with its interval, and how well chance explains it."""

    p_above: float
    """Of a difference this large or larger, were there none or a negative one."""

    @property
    def p_below(self) -> float:
        """The same for one this small or smaller."""
        return 1 - self.p_above


def patient_and_seed_effect(patients: Interval, by_seed: Sequence[float], *, level: float = 0.95) -> Effect:
    """A mean difference of runs with several seeds, tested for other patients and other seeds.

    ``patients`` is the symmetric interval of that mean over patients, at the same ``level``; ``by_seed`` the
    difference for each seed, on all patients. The two variances add up. That of seeds is known from few of them, so
    the interval is Student's, with the degrees of freedom of Welch and Satterthwaite. With one seed nothing is known of
    others: the interval stays that over patients. Simulated, 95 % intervals of three seeds held the truth in 94 % where
    seeds vary as much as patients, and in 91 % (of two seeds, 87 %) where they vary three times as much.
    """
    from scipy.stats import t as student

    deviates = NormalDist().inv_cdf((1 + level) / 2)
    of_patients = ((patients.high - patients.low) / 2 / deviates) ** 2
    count = len(by_seed)
    of_seeds = float(np.var(by_seed, ddof=1)) / count if count > 1 else 0.0
    variance = of_patients + of_seeds
    share = of_seeds / variance if variance else 0.0
    freedom = (count - 1) / share**2 if share > NEGLIGIBLE else math.inf
    error = math.sqrt(variance)
    reach = float(student.ppf((1 + level) / 2, freedom)) * error
    value = patients.value
    p_above = float(student.sf(value / error, freedom)) if error else 0.5 - 0.5 * np.sign(value)
    return Effect(value, value - reach, value + reach, float(p_above))


def independent_difference(first: Interval, second: Interval, *, level: float = 0.95) -> Effect:
    """The first minus the second, measured on different patients; both with intervals at ``level``, taken as normal."""
    deviates = NormalDist().inv_cdf((1 + level) / 2)
    error = math.hypot(first.high - first.low, second.high - second.low) / 2 / deviates
    value = first.value - second.value
    return patient_and_seed_effect(Interval(value, value - deviates * error, value + deviates * error), (), level=level)


def intersection_union_p_value(p_values: Sequence[float]) -> float:
    """That at least one of several differences is not above zero: the largest of their p-values.

    The intersection-union test (Berger 1982): needs no correction for their number, however they depend on each other.
    """
    return max(p_values)


def sign_test(wins: int, trials: int, chance: float = 0.5) -> float:
    """Of so many wins or more, were each as likely as ``chance``. A tie is no win."""
    from scipy.stats import binom

    if not 0 <= wins <= trials:
        raise ValueError(f"{wins} wins of {trials} trials cannot be")
    return float(binom.sf(wins - 1, trials, chance))


def rank_agreement(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, float]:
    """Kendall's tau of two lists of values, and how likely so much agreement or more is by chance."""
    from scipy.stats import kendalltau

    found = kendalltau(first, second, alternative="greater")
    return float(found.statistic), float(found.pvalue)
