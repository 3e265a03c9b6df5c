"""Calibration compared with scikit-learn and known values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from clocs.metrics.calibration import (
    PRIOR,
    adjust_probabilities,
    brier_score,
    expected_calibration_error,
    fit_adjustment,
    reliability,
    to_probabilities,
)

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def make(rows: int, classes: int, seed: int) -> tuple[Bools, Floats]:
    """Return truth and probabilities of shape (N, K), many of them on the edges of bins."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 41, (rows, classes)) / 40
    return random.random((rows, classes)) < values, values


@given(st.integers(2, 200), st.integers(1, 3), st.integers(1, 12), st.integers(0, 2**32))
def test_bins_equal_those_of_scikit_learn(rows: int, classes: int, bins: int, seed: int) -> None:
    truth, values = make(rows, classes, seed)
    found = reliability(truth, values, bins)
    assert found.count.sum(axis=1).tolist() == [rows] * classes
    errors, briers = expected_calibration_error(truth, values, bins), brier_score(truth, values)
    for index in range(classes):
        observed, mean = calibration_curve(truth[:, index], values[:, index], n_bins=bins)
        filled = found.count[index] > 0
        np.testing.assert_allclose(found.observed[index][filled], observed)
        np.testing.assert_allclose(found.mean_probability[index][filled], mean)
        assert np.isnan(found.observed[index][~filled]).all()
        assert errors[index] == pytest.approx((found.count[index][filled] / rows) @ np.abs(mean - observed))
        assert briers[index] == pytest.approx(brier_score_loss(truth[:, index], values[:, index]))


@given(st.integers(2, 60), st.integers(0, 2**32))
@settings(max_examples=30)
def test_an_integer_weight_equals_repeated_rows(rows: int, seed: int) -> None:
    truth, values = make(rows, 2, seed)
    times = np.random.default_rng(seed).integers(0, 4, (rows, 2))
    times[0] = 1
    for measure in (expected_calibration_error, brier_score):
        found = measure(truth, values, weights=times)
        for index in range(2):
            copies = np.repeat(np.arange(rows), times[:, index])
            expected = measure(truth[copies], values[copies])
            np.testing.assert_allclose(found[:, index], expected, rtol=0, atol=1e-12)
    weighted = brier_score(truth, values, weights=times[:, 0])[0]
    literal = brier_score_loss(truth[:, 0], values[:, 0], sample_weight=times[:, 0])
    assert weighted == pytest.approx(literal, abs=1e-12)


def test_calibration_errors_computed_by_hand() -> None:
    truth = np.array([[True], [False], [False], [True]])
    confident = np.array([[0.9], [0.9], [0.2], [0.2]])
    assert expected_calibration_error(truth, confident)[0] == pytest.approx((2 * 0.4 + 2 * 0.3) / 4)
    assert expected_calibration_error(truth, truth.astype(float))[0] == 0
    assert brier_score(truth, 1 - truth.astype(float))[0] == 1
    assert np.isnan(
        [*brier_score(truth[:0], confident[:0]), *expected_calibration_error(truth[:0], confident[:0])]
    ).all()


def test_reliability_serialises_to_json() -> None:
    truth, values = make(7, 2, 0)
    found = reliability(truth, values)
    read = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert read["edges"] == found.edges.tolist()
    for name in ("count", "mean_probability", "observed"):
        np.testing.assert_array_equal(np.array(read[name], float), getattr(found, name))


@pytest.mark.parametrize(("multi_label", "reference"), [(True, expit), (False, softmax)])
def test_probabilities_are_those_of_scipy(multi_label: bool, reference: Callable[..., npt.NDArray[np.float64]]) -> None:
    logits = 20 * np.random.default_rng(0).normal(size=(200, 3))
    expected = reference(logits) if multi_label else reference(logits, axis=1)
    np.testing.assert_allclose(to_probabilities(logits, multi_label), expected, rtol=1e-13)
    assert to_probabilities(logits[:0], multi_label).shape == (0, 3)


@pytest.mark.parametrize("multi_label", [True, False])
def test_large_logits_stay_finite(multi_label: bool) -> None:
    logits = 1e7 * np.random.default_rng(0).normal(size=(200, 3))
    found = to_probabilities(logits, multi_label)
    assert np.isfinite(found).all()
    if not multi_label:
        np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reliability(np.ones((2, 1), bool), np.array([[0.2], [1.5]])), "from 0 to 1"),
        (lambda: brier_score(np.ones((2, 1), bool), np.array([[-0.2], [0.5]])), "from 0 to 1"),
        (lambda: reliability(np.ones((2, 1), bool), np.ones((2, 1)), bins=0), "bins"),
    ],
)
def test_invalid_arguments_are_rejected(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_an_adjustment_of_independent_labels_is_a_logistic_regression_on_log_odds() -> None:
    """Compare with scikit-learn without a prior, which has little influence on 20,000 rows."""
    random = np.random.default_rng(3)
    means = expit(random.normal(-1, 1, (20_000, 2)))
    truth = random.random(means.shape) < expit(logit(means) * [1.8, 0.6] + [0.9, -0.4])
    slope, offset = fit_adjustment(means, truth, multi_label=True)
    for index in range(2):
        model = LogisticRegression(C=np.inf).fit(logit(means[:, [index]]), truth[:, index])
        np.testing.assert_allclose(slope[index], model.coef_[0, 0], rtol=2e-3)
        np.testing.assert_allclose(offset[index], model.intercept_[0], rtol=5e-3)
    better = adjust_probabilities(means, slope, offset, multi_label=True)
    assert (expected_calibration_error(truth, better) < 0.2 * expected_calibration_error(truth, means)).all()


def test_an_adjustment_of_exclusive_classes_reverses_a_known_distortion() -> None:
    random = np.random.default_rng(4)
    true = random.dirichlet([1, 1, 1], 20_000)
    truth = np.eye(3, dtype=bool)[[random.choice(3, p=row) for row in true]]
    distorted = adjust_probabilities(true, np.full(3, 0.5), np.array([0.3, 0.0, -0.3]), multi_label=False)
    restored = adjust_probabilities(distorted, *fit_adjustment(distorted, truth, multi_label=False), multi_label=False)
    np.testing.assert_allclose(restored.sum(1), 1)
    assert np.abs(restored - true).mean() < 0.01 < np.abs(distorted - true).mean()


def test_an_adjustment_of_groups_with_several_classes_equals_a_search_without_gradients() -> None:
    """A recording with labels per frame can have several classes that are exclusive within a frame."""
    random = np.random.default_rng(5)
    means = random.dirichlet([1, 1, 1], 200)
    truth = np.eye(3, dtype=bool)[[random.choice(3, p=row) for row in means]]
    truth |= np.eye(3, dtype=bool)[[random.choice(3, p=row) for row in means]]
    evidence = np.log(means.clip(1e-6, 1 - 1e-6))

    def loss(parameters: Floats) -> float:
        log_likelihood = log_softmax(evidence * parameters[:3] + parameters[3:], axis=1)[truth].sum()
        return float(PRIOR * np.square(parameters - no_adjustment).sum() / 2 - log_likelihood)

    no_adjustment = np.array([1.0, 1, 1, 0, 0, 0])
    best = minimize(loss, no_adjustment, method="Nelder-Mead", options={"maxiter": 8000, "fatol": 1e-9})
    assert loss(np.concatenate(fit_adjustment(means, truth, multi_label=False))) <= best.fun + 1e-3


def test_an_adjustment_keeps_the_order_and_is_small_for_few_rows() -> None:
    means = np.linspace(0, 1, 9)[:, None]
    reversed_truth = fit_adjustment(means, means < 0.5, multi_label=True)
    assert (np.diff(adjust_probabilities(means, *reversed_truth, multi_label=True)[:, 0]) >= 0).all()
    slope, offset = fit_adjustment(np.full((1, 1), 0.7), np.array([[True]]), multi_label=True)
    assert abs(slope[0] - 1) + abs(offset[0]) < 0.5
