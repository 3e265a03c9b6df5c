"""p-values against closed forms, textbooks' values and simulation."""

from __future__ import annotations

import math
from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from clocs.metrics.bootstrap import Interval
from clocs.metrics.significance import (
    independent_difference,
    intersection_union_p_value,
    patient_and_seed_effect,
    rank_agreement,
    sign_test,
)

REACH = NormalDist().inv_cdf(0.975)


def interval(value: float, error: float) -> Interval:
    return Interval(value, value - REACH * error, value + REACH * error)


def test_one_seed_leaves_the_interval_over_patients() -> None:
    found = patient_and_seed_effect(interval(0.02, 0.01), [0.02])
    assert (found.low, found.high) == pytest.approx((0.02 - REACH * 0.01, 0.02 + REACH * 0.01))
    assert found.p_above == pytest.approx(1 - NormalDist().cdf(2.0))
    assert found.p_above + found.p_below == 1


def test_without_patients_it_is_students_test_of_seeds() -> None:
    """scipy's one-sample t-test."""
    seeds = [0.01, 0.03, 0.06]
    expected = ttest_1samp(seeds, 0, alternative="greater")
    mean = sum(seeds) / 3
    found = patient_and_seed_effect(Interval(mean, mean, mean), seeds)
    assert found.p_above == pytest.approx(expected.pvalue)
    both = ttest_1samp(seeds, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((both.low, both.high))


def test_seeds_that_agree_add_nothing() -> None:
    assert patient_and_seed_effect(interval(0.02, 0.01), [0.02] * 3) == patient_and_seed_effect(
        interval(0.02, 0.01), [0.02]
    )


def test_intervals_of_patients_and_seeds_hold_the_truth() -> None:
    """2,000 simulated comparisons with three seeds whose spread equals that of patients."""
    random, held = np.random.default_rng(0), 0
    for _ in range(2000):
        seeds = random.normal(0, 0.01 * math.sqrt(3), 3)
        value = float(random.normal(0, 0.01))
        found = patient_and_seed_effect(interval(value + seeds.mean(), 0.01), [value + each for each in seeds])
        held += found.low <= 0 <= found.high
    assert 0.92 < held / 2000 < 0.96  # an interval over patients alone holds it in 0.83


@given(st.floats(-1, 1), st.floats(1e-6, 0.5), st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_an_interval_that_leaves_out_zero_has_a_small_p(value: float, error: float, seeds: list[float]) -> None:
    found = patient_and_seed_effect(interval(value, error), seeds)
    assert found.low <= value <= found.high
    if abs(found.low) > 1e-9 and abs(found.high) > 1e-9:
        assert (found.low > 0) == (found.p_above < 0.025)
        assert (found.high < 0) == (found.p_below < 0.025)


def test_no_spread_at_all() -> None:
    for value, p in ((0.1, 0.0), (0.0, 0.5), (-0.1, 1.0)):
        assert patient_and_seed_effect(Interval(value, value, value), [value]).p_above == p


def test_independent_errors_add_in_squares() -> None:
    found = independent_difference(interval(0.9, 0.03), interval(0.8, 0.04))
    assert (found.value, found.high - found.value) == pytest.approx((0.1, REACH * 0.05))
    assert found.p_above == pytest.approx(1 - NormalDist().cdf(2))


@pytest.mark.parametrize(
    ("wins", "trials", "chance", "expected"),
    [(6, 6, 0.5, 1 / 64), (0, 6, 0.5, 1.0), (5, 6, 0.5, 7 / 64), (2, 2, 0.75, 9 / 16), (0, 0, 0.5, 1.0)],
)
def test_sign_tests_by_hand(wins: int, trials: int, chance: float, expected: float) -> None:
    assert sign_test(wins, trials, chance) == pytest.approx(expected)


@given(st.integers(0, 24), st.sampled_from([0.5, 0.75, 1 / 3]))
def test_sign_tests_count_outcomes(wins: int, chance: float) -> None:
    terms = [math.comb(24, k) * chance**k * (1 - chance) ** (24 - k) for k in range(wins, 25)]
    assert sign_test(wins, 24, chance) == pytest.approx(math.fsum(terms))


def test_more_wins_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="7 wins of 6"):
        sign_test(7, 6)


def test_all_must_be_above() -> None:
    assert intersection_union_p_value([0.01, 0.2, 0.001]) == 0.2


def test_the_worst_of_several_rejects_no_more_often_than_it_says() -> None:
    """Two differences at zero, wholly dependent: the worst case of the intersection-union test."""
    random = np.random.default_rng(1)
    one = [1 - NormalDist().cdf(float(each)) for each in random.normal(size=4000)]
    assert np.mean([intersection_union_p_value([p, p]) < 0.05 for p in one]) == pytest.approx(0.05, abs=0.01)


def test_agreement_of_ranks_counts_orders() -> None:
    """Of the 24 orders of four, those whose pairs agree as often or more."""
    first, second = [1, 2, 3, 4], [1.0, 2.0, 4.0, 3.0]

    def agreeing(order: tuple[float, ...]) -> int:
        return sum(order[i] < order[j] for i in range(4) for j in range(i + 1, 4))

    tau, p = rank_agreement(first, second)
    orders = [agreeing(order) for order in permutations((1.0, 2.0, 3.0, 4.0))]
    assert tau == pytest.approx((5 - 1) / 6)
    assert p == pytest.approx(sum(count >= 5 for count in orders) / 24)
