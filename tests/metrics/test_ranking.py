"""Ranking metrics compared with scikit-learn, with weights and ties, and undefined values.

Operating points are compared with normal distributions in closed form and with a literal search.
"""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from clocs.metrics.ranking import OperatingPoints, Ranking, auc, average_precision, macro_average, roc_curves

Case = tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64], npt.NDArray[np.float64]]
Floats = npt.NDArray[np.float64]


@st.composite
def cases(draw: st.DrawFn, integer_weights: bool = False) -> Case:
    """Draw truth (N, K), scores (N, K) of 1 to 6 different values, and weights (N,), some of them 0."""
    rows, classes, levels = draw(st.integers(2, 40)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    truth = random.random((rows, classes)) < draw(st.floats(0.1, 0.9))
    truth[0], truth[1] = True, False
    scores = random.normal(size=levels)[random.integers(0, levels, (rows, classes))]
    weights = random.integers(0, 4, rows).astype(float) if integer_weights else random.exponential(size=rows)
    weights[random.random(rows) < 0.2] = 0
    weights[:2] += 1
    return truth, scores, weights


@given(cases())
def test_metrics_equal_scikit_learn_with_weights_and_ties(case: Case) -> None:
    truth, scores, weights = case
    for index in range(truth.shape[1]):
        column = truth[:, index], scores[:, index]
        assert auc(truth, scores)[index] == pytest.approx(roc_auc_score(*column), abs=1e-12)
        assert average_precision(truth, scores)[index] == pytest.approx(average_precision_score(*column), abs=1e-12)
        weighted = (
            roc_auc_score(*column, sample_weight=weights),
            average_precision_score(*column, sample_weight=weights),
        )
        assert auc(truth, scores, weights)[index] == pytest.approx(weighted[0], abs=1e-12)
        assert average_precision(truth, scores, weights)[index] == pytest.approx(weighted[1], abs=1e-12)


@given(cases(integer_weights=True))
def test_an_integer_weight_equals_repeated_rows(case: Case) -> None:
    truth, scores, weights = case
    rows = np.repeat(np.arange(len(truth)), weights.astype(int))
    ranking, repeated = Ranking(truth, scores), Ranking(truth[rows], scores[rows])
    np.testing.assert_allclose(ranking.auc(weights), repeated.auc(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(ranking.average_precision(weights), repeated.average_precision(), rtol=0, atol=1e-14)


@given(cases())
@settings(max_examples=50)
def test_many_weights_at_once_equal_one_after_the_other(case: Case) -> None:
    truth, scores, weights = case
    several = np.stack([weights, np.ones(len(weights)), weights[::-1], 0 * weights], axis=1)
    ranking = Ranking(truth, scores)
    for measure in (ranking.auc, ranking.average_precision):
        alone = [measure(several[:, index]) for index in range(4)]
        np.testing.assert_allclose(measure(several), np.stack(alone, axis=1), rtol=0, atol=1e-14)


@given(cases())
def test_the_combined_function_equals_the_separate_ones(case: Case) -> None:
    truth, scores, weights = case
    ranking = Ranking(truth, scores)
    alone = [ranking.auc(weights), ranking.average_precision(weights)]
    np.testing.assert_array_equal(ranking.auc_and_average_precision(weights), alone)


@given(cases())
def test_auc_is_the_fraction_of_ordered_pairs(case: Case) -> None:
    """Compute the definition pair by pair."""
    truth, scores, _ = case
    pairs = itertools.product(scores[truth[:, 0], 0], scores[~truth[:, 0], 0])
    wins = [1.0 if high > low else 0.5 if high == low else 0.0 for high, low in pairs]
    assert auc(truth, scores)[0] == pytest.approx(sum(wins) / len(wins), abs=1e-12)


def test_infinite_scores_tie_with_each_other() -> None:
    truth = np.array([[True], [False], [True], [False]])
    scores = np.array([[np.inf], [np.inf], [0.0], [-np.inf]])
    assert auc(truth, scores)[0] == (0.5 + 1 + 0 + 1) / 4


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.uint8, np.uint64, np.float32])
def test_scores_of_any_type_are_ranked_by_value(kind: type) -> None:
    """The lowest value of an integer type cannot be negated."""
    lowest = np.iinfo(kind).min if np.issubdtype(kind, np.integer) else 0
    scores: npt.NDArray[Any] = np.array([lowest, 1, 2, 3, 0, 1]).astype(kind)
    truth = np.array([False, False, True, True, False, True])
    expected = roc_auc_score(truth, scores.astype(float)), average_precision_score(truth, scores.astype(float))
    found = Ranking(truth[:, None], scores[:, None]).auc_and_average_precision()
    np.testing.assert_allclose(found[:, 0], expected)


def test_large_weights_of_positives_do_not_hide_small_weights_of_negatives() -> None:
    truth, scores = np.array([[True], [False], [False]]), np.array([[0.5], [0.9], [0.1]])
    assert auc(truth, scores, [1e20, 1.0, 3.0])[0] == pytest.approx(0.75)


def test_a_class_without_positives_or_negatives_is_undefined() -> None:
    truth = np.array([[True, False, True], [True, False, False], [True, False, False]])
    scores = np.arange(9.0).reshape(3, 3)
    for values in (auc(truth, scores), average_precision(truth, scores)):
        np.testing.assert_array_equal(np.isnan(values), [True, True, False])
    weightless = auc(truth, scores, [0, 1, 1])
    assert np.isnan(weightless).all(), "its only positive has no weight"
    assert np.isnan(auc(truth[:0], scores[:0])).all()
    assert [points.shape for points in roc_curves(truth, scores)][:2] == [(2, 0), (2, 0)]
    assert [points.shape for points in roc_curves(truth[:0], scores[:0])] == [(2, 0)] * 3


def test_the_macro_average_ignores_undefined_classes() -> None:
    assert macro_average([0.5, np.nan, 1.0]) == 0.75
    assert np.isnan(macro_average([np.nan, np.nan]))
    assert np.isnan(macro_average([]))


@given(cases())
@settings(max_examples=50)
def test_roc_curves_equal_those_of_scikit_learn(case: Case) -> None:
    truth, scores, _ = case
    for index, points in enumerate(roc_curves(truth, scores)):
        false, true, _ = roc_curve(truth[:, index], scores[:, index], drop_intermediate=False)
        np.testing.assert_allclose(points[:, [0, -1]], [[0, 1], [0, 1]])
        kept = {(round(x, 9), round(y, 9)) for x, y in points.T}
        assert kept <= {(round(x, 9), round(y, 9)) for x, y in zip(false, true, strict=True)}
        assert np.trapezoid(points[1], points[0]) == pytest.approx(auc(truth, scores)[index], abs=1e-12)


def test_roc_curves_have_no_points_on_straight_lines() -> None:
    truth, scores = np.array([[True]] * 5 + [[False]] * 7), np.arange(12.0)[::-1, None]
    np.testing.assert_allclose(roc_curves(truth, scores)[0], [[0, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize(
    ("truth", "scores", "message"),
    [
        (np.ones((3, 2)), np.ones((3, 2)), "bool"),
        (np.ones(3, bool), np.ones(3), r"shape \(N, K\)"),
        (np.ones((3, 2), bool), np.ones((3, 1)), r"shape \(N, K\)"),
        (np.ones((3, 2), bool), np.array([[1, 2], [np.nan, 2], [np.nan, np.nan]]), "2 of 3 rows contain NaN"),
    ],
)
def test_invalid_arrays_are_rejected(
    truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        auc(truth, scores)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]])
def test_invalid_weights_are_rejected(weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"weights of shape \(3,\)"):
        auc(np.eye(3, dtype=bool), np.eye(3), weights)


def normals(shift: float, count: int = 10_000) -> OperatingPoints:
    """Return normal scores at evenly spaced quantiles, with positives ``shift`` above negatives."""
    quantiles = np.array([NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)])
    return OperatingPoints(np.arange(2 * count) < count, np.concatenate([quantiles + shift, quantiles]))


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_two_normal_distributions(shift: float) -> None:
    """Error rates are equal at half of the shift. The threshold of 1 % is the 99 % quantile of the negatives."""
    points, normal = normals(shift), NormalDist()
    assert points.equal_error_rate() == pytest.approx(normal.cdf(-shift / 2), abs=1e-4)
    assert points.true_positive_rate_at(0.01) == pytest.approx(1 - normal.cdf(normal.inv_cdf(0.99) - shift), abs=2e-3)
    assert points.auc() == pytest.approx(normal.cdf(shift / math.sqrt(2)), abs=1e-4)


samples = st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=40).filter(
    lambda rows: len({positive for positive, _ in rows}) == 2
)


@settings(max_examples=60)
@given(samples)
def test_operating_points_equal_a_literal_search(rows: list[tuple[bool, int]]) -> None:
    """Try every threshold, and find the equal error rate on the curve of scikit-learn."""
    positive, scores = np.array([label for label, _ in rows]), np.array([float(score) for _, score in rows])
    points = OperatingPoints(positive, scores)
    best = 0.0
    for threshold in [*scores, np.inf]:
        predicted = scores >= threshold
        if predicted[~positive].mean() <= 0.2:
            best = max(best, float(predicted[positive].mean()))
    assert points.true_positive_rate_at(0.2) == pytest.approx(best)
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)
    along = np.linspace(0, len(false) - 1, 20_001)
    false, true = (np.interp(along, np.arange(len(side)), side) for side in (false, true))
    crossing = int(np.argmin(np.abs(false - (1 - true))))
    assert points.equal_error_rate() == pytest.approx(false[crossing], abs=2e-3)
    assert points.auc() == pytest.approx(roc_auc_score(positive, scores))


@settings(max_examples=60)
@given(samples, st.integers(0, 1000))
def test_a_weight_equals_copies_of_a_row(rows: list[tuple[bool, int]], seed: int) -> None:
    positive, scores = np.array([label for label, _ in rows]), np.array([float(score) for _, score in rows])
    times = np.random.default_rng(seed).integers(0, 4, len(rows))
    copies = np.repeat(np.arange(len(rows)), times)
    if len(set(positive[copies].tolist())) < 2:
        assert math.isnan(OperatingPoints(positive, scores).equal_error_rate(times))
        assert math.isnan(OperatingPoints(positive, scores).true_positive_rate_at(0.1, times))
        return
    weighted, copied = OperatingPoints(positive, scores), OperatingPoints(positive[copies], scores[copies])
    assert weighted.equal_error_rate(times) == pytest.approx(copied.equal_error_rate())
    assert weighted.true_positive_rate_at(0.3, times) == pytest.approx(copied.true_positive_rate_at(0.3))


def test_perfect_and_reversed_scores() -> None:
    positive = np.array([True, True, False, False])
    perfect = OperatingPoints(positive, np.array([4.0, 3.0, 2.0, 1.0]))
    assert (perfect.equal_error_rate(), perfect.true_positive_rate_at(0.0)) == (0.0, 1.0)
    reverse = OperatingPoints(positive, np.array([1.0, 2.0, 3.0, 4.0]))
    assert (reverse.equal_error_rate(), reverse.true_positive_rate_at(0.4)) == (1.0, 0.0)


def test_metrics_without_positives_or_negatives_are_undefined() -> None:
    for count in (0, 3):
        empty = OperatingPoints(np.ones(count, bool), np.arange(float(count)))
        assert math.isnan(empty.equal_error_rate())
        assert math.isnan(empty.true_positive_rate_at(0.01))
        assert math.isnan(empty.auc())
