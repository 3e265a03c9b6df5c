"""p-values compared with closed forms and simulations."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from clocs.metrics.intervals import Interval
from clocs.metrics.significance import (
    independent_difference,
    patient_and_seed_effect,
    sign_test,
)

QUANTILE = NormalDist().inv_cdf(0.975)


def interval(value: float, error: float) -> Interval:
    return Interval(value, value - QUANTILE * error, value + QUANTILE * error)


def test_the_effect_of_one_seed_has_the_interval_over_patients() -> None:
    found = patient_and_seed_effect(interval(0.02, 0.01), [0.02])
    assert (found.low, found.high) == pytest.approx((0.02 - QUANTILE * 0.01, 0.02 + QUANTILE * 0.01))
    assert found.p_above == pytest.approx(1 - NormalDist().cdf(2.0))
    assert found.p_above + found.p_below == 1


def test_without_patient_variance_the_test_is_students_t_test() -> None:
    """Compare with the one-sample t-test of SciPy."""
    seeds = [0.01, 0.03, 0.06]
    expected = ttest_1samp(seeds, 0, alternative="greater")
    mean = sum(seeds) / 3
    found = patient_and_seed_effect(Interval(mean, mean, mean), seeds)
    assert found.p_above == pytest.approx(expected.pvalue)
    both = ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((both.low, both.high))


def test_equal_seeds_add_no_variance() -> None:
    assert patient_and_seed_effect(interval(0.02, 0.01), [0.02] * 3) == patient_and_seed_effect(
        interval(0.02, 0.01), [0.02]
    )


def test_intervals_of_patients_and_seeds_cover_the_true_value() -> None:
    """Simulate 2,000 comparisons with three seeds that vary as much as patients."""
    random, num_covered = np.random.default_rng(0), 0
    for _ in range(2000):
        seeds = random.normal(0, 0.01 * math.sqrt(3), 3)
        value = float(random.normal(0, 0.01))
        found = patient_and_seed_effect(interval(value + seeds.mean(), 0.01), [value + seed for seed in seeds])
        num_covered += found.low <= 0 <= found.high
    assert 0.92 < num_covered / 2000 < 0.96  # 0.83 with an interval over patients only


@given(st.floats(-1, 1), st.floats(1e-6, 0.5), st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_an_interval_without_zero_has_a_small_p_value(value: float, error: float, seeds: list[float]) -> None:
    found = patient_and_seed_effect(interval(value, error), seeds)
    assert found.low <= value <= found.high
    if abs(found.low) > 1e-9 and abs(found.high) > 1e-9:
        assert (found.low > 0) == (found.p_above < 0.025)
        assert (found.high < 0) == (found.p_below < 0.025)


def test_an_effect_without_variance() -> None:
    for value, p in ((0.1, 0.0), (0.0, 0.5), (-0.1, 1.0)):
        assert patient_and_seed_effect(Interval(value, value, value), [value]).p_above == p


def test_independent_errors_add_in_squares() -> None:
    found = independent_difference(interval(0.9, 0.03), interval(0.8, 0.04))
    assert (found.value, found.high - found.value) == pytest.approx((0.1, QUANTILE * 0.05))
    assert found.p_above == pytest.approx(1 - NormalDist().cdf(2))


@pytest.mark.parametrize(
    ("wins", "trials", "chance", "expected"),
    [(6, 6, 0.5, 1 / 64), (0, 6, 0.5, 1.0), (5, 6, 0.5, 7 / 64), (2, 2, 0.75, 9 / 16), (0, 0, 0.5, 1.0)],
)
def test_sign_tests_computed_by_hand(wins: int, trials: int, chance: float, expected: float) -> None:
    assert sign_test(wins, trials, chance) == pytest.approx(expected)


@given(st.integers(0, 24), st.sampled_from([0.5, 0.75, 1 / 3]))
def test_sign_tests_equal_the_sum_of_binomial_probabilities(wins: int, chance: float) -> None:
    terms = [math.comb(24, k) * chance**k * (1 - chance) ** (24 - k) for k in range(wins, 25)]
    assert sign_test(wins, 24, chance) == pytest.approx(math.fsum(terms))


def test_more_wins_than_trials_are_rejected() -> None:
    with pytest.raises(ValueError, match="from 0 to 6, got 7"):
        sign_test(7, 6)
