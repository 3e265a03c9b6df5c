"""Thresholds compared with a search over all scores, and metrics of decisions with scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from clocs.metrics.thresholds import Decisions, Thresholds, confusion_matrix, highest_score

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def make_rows(seed: int, rows: int = 30, classes: int = 3, levels: int = 5) -> tuple[Bools, Floats]:
    """Return truth and scores of shape (N, K). Scores have few different values, so many thresholds tie."""
    random = np.random.default_rng(seed)
    truth = random.random((rows, classes)) < 0.4
    truth[0], truth[1] = True, False
    return truth, (random.integers(0, levels, truth.shape) + truth) / levels


def literal_f1(truth: Bools, predicted: Bools) -> float:
    return float(2 * (truth & predicted).sum() / (truth.sum() + predicted.sum()))


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 12))
@settings(max_examples=40)
def test_thresholds_have_the_highest_f1_of_all_and_are_the_highest_of_those(seed: int, rows: int, levels: int) -> None:
    truth, scores = make_rows(seed, rows, 2, levels)
    found = Thresholds.fit(truth, scores)
    for column in range(2):
        tried = sorted(set(scores[:, column].tolist()))
        values = [literal_f1(truth[:, column], scores[:, column] >= threshold) for threshold in tried]
        best = max(threshold for threshold, value in zip(tried, values, strict=True) if value >= max(values) - 1e-12)
        assert found.values[column] == best
        predicted = found.apply(scores)[:, column]
        assert literal_f1(truth[:, column], predicted) == pytest.approx(max(values), abs=1e-12)


def test_a_class_without_validation_positives_or_training_positives_is_never_predicted() -> None:
    truth, scores = make_rows(0)
    truth[:, 1] = False
    found = Thresholds.fit(truth, scores, untrained=np.array([True, False, False]))
    assert found.as_list()[:2] == [None, None]
    assert found.as_list()[2] == found.values[2]
    assert json.loads(json.dumps(found.as_list(), allow_nan=False)) == found.as_list()
    assert found.apply(np.full((1, 3), np.inf)).tolist() == [[False, False, True]]
    with pytest.raises(ValueError, match=r"shape \(N, 3\)"):
        found.apply(scores[:, :2])


@given(st.integers(0, 2**32))
@settings(max_examples=15)
def test_metrics_of_decisions_equal_scikit_learn_with_weights(seed: int) -> None:
    truth, scores = make_rows(seed)
    weights = np.random.default_rng(seed).exponential(size=(len(truth), 2))
    predicted = scores >= 0.5
    found = Decisions.count(truth, predicted, weights)
    for index in range(2):
        options = {"average": None, "sample_weight": weights[:, index], "zero_division": 0.0}
        for values, expected in (
            (found.f1(), f1_score(truth, predicted, **options)),
            (found.sensitivity(), recall_score(truth, predicted, **options)),
            (found.specificity(), recall_score(~truth, ~predicted, **options)),
        ):
            np.testing.assert_allclose(values[:, index], expected, rtol=0, atol=1e-12)
    single = Decisions.count(truth, predicted, weights[:, 0])
    np.testing.assert_allclose(single.f1(), found.f1()[:, 0], rtol=0, atol=1e-14)


def test_metrics_without_positives_or_negatives_are_undefined() -> None:
    truth = np.array([[True, False], [True, False]])
    found = Decisions.count(truth, ~truth)
    np.testing.assert_array_equal(found.f1(), [0, np.nan])
    np.testing.assert_array_equal(found.sensitivity(), [0, np.nan])
    np.testing.assert_array_equal(found.specificity(), [np.nan, 0])


@given(st.integers(0, 2**32), st.integers(2, 60))
@settings(max_examples=20)
def test_exclusive_decisions_equal_scikit_learn(seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    scores, labels = random.integers(0, 4, (rows, 4)).astype(float), random.integers(0, 4, rows)
    truth, predicted = np.eye(4, dtype=bool)[labels], highest_score(scores)
    assert (predicted.sum(axis=1) == 1).all()
    answers = scores.argmax(axis=1)
    found = confusion_matrix(truth, predicted)
    np.testing.assert_array_equal(found, sklearn_confusion_matrix(labels, answers, labels=range(4)))
    counted = Decisions.count(truth, predicted)
    assert float(counted.accuracy()) == pytest.approx(accuracy_score(labels, answers), abs=1e-12)
    present = sorted(set(labels.tolist()))
    expected = f1_score(labels, answers, labels=present, average=None, zero_division=0.0)
    np.testing.assert_allclose(counted.f1()[present], expected, rtol=0, atol=1e-12)


def test_an_untrained_class_has_never_the_highest_score() -> None:
    scores = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    assert highest_score(scores, untrained=np.array([True, False, False])).tolist() == [
        [False, True, False],
        [False, False, True],
    ]


def test_a_confusion_matrix_needs_one_class_per_row() -> None:
    one = np.eye(2, dtype=bool)
    with pytest.raises(ValueError, match="one class per row of truth"):
        confusion_matrix(~np.zeros((2, 2), bool), one)
    with pytest.raises(ValueError, match="one class per row of predicted"):
        confusion_matrix(one, np.zeros((2, 2), bool))
