"""Operating points: two normal distributions in closed form, a literal search over thresholds, copies as weights."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from clocs.metrics.operating_points import OperatingPoints

Floats = npt.NDArray[np.float64]


def normals(shift: float, count: int = 10_000) -> OperatingPoints:
    """Positives ``shift`` above negatives, both of variance 1, at evenly spaced quantiles: no chance in them."""
    quantiles = np.array([NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)])
    return OperatingPoints(np.arange(2 * count) < count, np.concatenate([quantiles + shift, quantiles]))


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_two_normal_distributions(shift: float) -> None:
    """The curves cross midway, at half the shift; the threshold of 1 % lies at the 99 % quantile of the negatives."""
    points, normal = normals(shift), NormalDist()
    assert points.equal_error_rate() == pytest.approx(normal.cdf(-shift / 2), abs=1e-4)
    assert points.true_positive_rate_at(0.01) == pytest.approx(1 - normal.cdf(normal.inv_cdf(0.99) - shift), abs=2e-3)
    assert points.auc() == pytest.approx(normal.cdf(shift / math.sqrt(2)), abs=1e-4)


samples = st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=40).filter(
    lambda rows: len({positive for positive, _ in rows}) == 2
)


@settings(max_examples=60)
@given(samples)
def test_equal_to_a_literal_search(rows: list[tuple[bool, int]]) -> None:
    """Ties and all: every threshold tried one by one; scikit-learn's curve for the crossing."""
    positive, scores = np.array([one for one, _ in rows]), np.array([float(score) for _, score in rows])
    points = OperatingPoints(positive, scores)
    best = 0.0
    for threshold in [*scores, np.inf]:
        called = scores >= threshold
        if called[~positive].mean() <= 0.2:
            best = max(best, float(called[positive].mean()))
    assert points.true_positive_rate_at(0.2) == pytest.approx(best)
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)
    along = np.linspace(0, len(false) - 1, 20_001)
    false, true = (np.interp(along, np.arange(len(side)), side) for side in (false, true))
    crossing = int(np.argmin(np.abs(false - (1 - true))))
    assert points.equal_error_rate() == pytest.approx(false[crossing], abs=2e-3)
    assert points.auc() == pytest.approx(roc_auc_score(positive, scores))


@settings(max_examples=60)
@given(samples, st.integers(0, 1000))
def test_a_weight_is_that_many_copies(rows: list[tuple[bool, int]], seed: int) -> None:
    positive, scores = np.array([one for one, _ in rows]), np.array([float(score) for _, score in rows])
    times = np.random.default_rng(seed).integers(0, 4, len(rows))
    copies = np.repeat(np.arange(len(rows)), times)
    if len(set(positive[copies].tolist())) < 2:
        assert math.isnan(OperatingPoints(positive, scores).equal_error_rate(times))
        assert math.isnan(OperatingPoints(positive, scores).true_positive_rate_at(0.1, times))
        return
    weighed, copied = OperatingPoints(positive, scores), OperatingPoints(positive[copies], scores[copies])
    assert weighed.equal_error_rate(times) == pytest.approx(copied.equal_error_rate())
    assert weighed.true_positive_rate_at(0.3, times) == pytest.approx(copied.true_positive_rate_at(0.3))


def test_perfect_and_reversed_scores() -> None:
    positive = np.array([True, True, False, False])
    perfect = OperatingPoints(positive, np.array([4.0, 3.0, 2.0, 1.0]))
    assert (perfect.equal_error_rate(), perfect.true_positive_rate_at(0.0)) == (0.0, 1.0)
    reverse = OperatingPoints(positive, np.array([1.0, 2.0, 3.0, 4.0]))
    assert (reverse.equal_error_rate(), reverse.true_positive_rate_at(0.4)) == (1.0, 0.0)


def test_nothing_to_compare_is_undefined() -> None:
    for count in (0, 3):
        empty = OperatingPoints(np.ones(count, bool), np.arange(float(count)))
        assert math.isnan(empty.equal_error_rate())
        assert math.isnan(empty.true_positive_rate_at(0.01))
        assert math.isnan(empty.auc())
