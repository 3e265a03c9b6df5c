"""Metrics of predicted numbers compared with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error as sklearn_error
from sklearn.metrics import r2_score as sklearn_r2

from clocs.core.seeds import generator
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.regression import RegressionMetrics, mean_absolute_error, r2_score


@given(st.integers(0, 2**32), st.integers(3, 50))
@settings(max_examples=30)
def test_metrics_equal_scikit_learn_with_weights(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    values = 60 + 15 * random.normal(size=rows)
    predictions, weights = values + 10 * random.normal(size=rows), random.exponential(size=(rows, 2))
    assert float(mean_absolute_error(values, predictions)) == pytest.approx(
        sklearn_error(values, predictions), abs=1e-12
    )
    assert float(r2_score(values, predictions)) == pytest.approx(sklearn_r2(values, predictions), abs=1e-12)
    for found, expected in ((mean_absolute_error, sklearn_error), (r2_score, sklearn_r2)):
        both = found(values, predictions, weights)
        for index in range(2):
            literal = expected(values, predictions, sample_weight=weights[:, index])
            assert both[index] == pytest.approx(literal, rel=1e-12, abs=1e-12)


def test_r2_of_equal_values_is_undefined() -> None:
    assert np.isnan(r2_score(np.full(3, 0.1), np.arange(3.0)))
    assert np.isnan(mean_absolute_error(np.arange(3.0), np.arange(3.0), np.zeros(3)))


def test_intervals_are_symmetric_and_equal_a_literal_bootstrap() -> None:
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), 2)
    values = random.normal(60, 15, 80)
    sides = [values + random.normal(0, spread, 80) for spread in (5, 9)]
    drawn = [bootstrap(RegressionMetrics(values, side, patients), replicates=50, seed=2) for side in sides]
    draws = generator(2, "bootstrap")
    rows = [np.concatenate([[2 * index, 2 * index + 1] for index in draws.integers(0, 40, 40)]) for _ in range(50)]
    for name, score in (("mae", sklearn_error), ("r2", sklearn_r2)):
        literal = [[score(values[row], side[row]) for row in rows] for side in sides]
        value, margin = score(values, sides[0]), 1.9599640 * np.std(literal[0], ddof=1)
        found = drawn[0].macro(name)
        assert [found.value, found.low, found.high] == pytest.approx([value, value - margin, value + margin], abs=1e-7)
        gaps = np.array(literal[0]) - literal[1]
        difference, margin = drawn[0].difference(drawn[1], name), 1.9599640 * gaps.std(ddof=1)
        value -= score(values, sides[1])
        assert [difference.value, difference.low] == pytest.approx([value, value - margin], abs=1e-7)
        assert difference.at_or_below_zero == np.mean(gaps <= 0)


def test_invalid_values_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"shape \(N,\)"):
        r2_score(np.ones((3, 1)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="finite"):
        mean_absolute_error(np.array([1.0, np.nan]), np.ones(2))
