"""The cost of a cell is estimated from the most similar cells that are finished."""

from __future__ import annotations

import pytest

from clocs.experiments.costs import DEFAULT, Costs, Estimate
from tests.experiments.toy_cells import Number, Sum


def test_the_most_similar_cells_decide() -> None:
    costs = Costs()
    assert costs.estimate(Number(value=3)) == Estimate(6.0, DEFAULT)
    costs.learn(Number(value=2), 20.0)
    assert costs.estimate(Number(value=3)) == Estimate(30.0, "same kind")
    costs.learn(Number(value=3), 3.0)
    assert costs.estimate(Number(value=3, seed=1)) == Estimate(3.0, "same value")
    assert costs.estimate(Sum(number=Number(value=3))).basis == DEFAULT


def test_the_median_counts_and_cells_without_a_time_do_not() -> None:
    costs = Costs()
    for seed, seconds in enumerate((4.0, 8.0, 4000.0, None, -1.0)):
        costs.learn(Number(value=4, seed=seed), seconds)
    costs.learn(Number(value=0), 5.0)
    assert costs.estimate(Number(value=4)).seconds == pytest.approx(8.0)
