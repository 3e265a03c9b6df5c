"""Calibration to few labels, compared with scikit-learn and in simulations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression

from clocs.metrics.calibration import PRIOR, brier_score
from clocs.metrics.local_calibration import (
    ClassAdjustment,
    Method,
    adjust_classes,
    choose_methods,
    cross_validate_adjustments,
    fit_class_adjustments,
)

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def shifted(rows: int, seed: int = 0, slope: float = 1.0, offset: float = -1.5) -> tuple[Bools, Floats]:
    """Return labels and probabilities of three classes that a hospital's prevalence makes too high."""
    random = np.random.default_rng(seed)
    evidence = random.normal(0, 1.5, (rows, 3))
    return random.random((rows, 3)) < expit(slope * evidence + offset), expit(evidence)


@pytest.mark.parametrize(
    ("with_class", "method"),
    [
        *((0, "published"), (4, "published"), (5, "intercept"), (19, "intercept"), (20, "platt"), (499, "platt")),
        *((500, "isotonic"), (1496, "published"), (1490, "intercept")),
    ],
)
def test_the_number_of_patients_chooses_the_method(with_class: int, method: Method) -> None:
    """Patients count, not their recordings; the rarer side decides."""
    truth = np.arange(1500)[:, None] < with_class
    patients = np.arange(1500)
    assert choose_methods(truth, patients) == (method,)
    assert choose_methods(np.repeat(truth, 3, axis=0), np.repeat(patients, 3)) == (method,)


def test_an_intercept_only_shifts_and_published_stays() -> None:
    truth, published = shifted(400)
    found = fit_class_adjustments(truth, published, ("published", "intercept", "platt"), multi_label=True)
    assert found[0] == ClassAdjustment("published")
    assert (found[1].slope, found[1].curve) == (1.0, ())
    adjusted = adjust_classes(published, found, multi_label=True)
    np.testing.assert_allclose(adjusted[:, 0], published[:, 0], atol=1e-9)
    np.testing.assert_allclose(logit(adjusted[:, 1]) - logit(published[:, 1]), found[1].offset, atol=1e-6)
    assert found[1].offset == pytest.approx(-1.5, abs=0.3)
    expected = (adjusted[:, 1] - truth[:, 1]).sum() + PRIOR * found[1].offset
    assert expected == pytest.approx(0, abs=1e-2), "the gradient of the likelihood with its prior"


def test_a_class_without_labels_keeps_its_evidence_where_classes_exclude_each_other() -> None:
    """The others move; its log odds against each of them change by their offsets only."""
    random = np.random.default_rng(1)
    published = softmax(random.normal(size=(300, 3)), axis=1)
    truth = np.eye(3, dtype=bool)[random.integers(0, 2, 300)]
    methods = choose_methods(truth, np.arange(300))
    assert methods == ("platt", "platt", "published")
    found = fit_class_adjustments(truth, published, methods, multi_label=False)
    assert (found[2].slope, found[2].offset) == (1.0, 0.0)
    adjusted = adjust_classes(published, found, multi_label=False)
    literal = softmax([item.slope for item in found] * np.log(published) + [item.offset for item in found], axis=1)
    np.testing.assert_allclose(adjusted, literal, atol=1e-9)


def test_a_curve_is_that_of_scikit_learn() -> None:
    truth, published = shifted(1500, slope=0.4)
    (found, *_) = fit_class_adjustments(truth, published, ("isotonic",) * 3, multi_label=True)
    before = adjust_classes(published[:, :1], [ClassAdjustment("platt", found.slope, found.offset)], multi_label=True)
    expected = IsotonicRegression().fit(before[:, 0], truth[:, 0]).predict(before[:, 0])
    after = adjust_classes(published[:, :1], [found], multi_label=True)[:, 0]
    np.testing.assert_allclose(after, expected, atol=1 / 1000)
    assert 0 < after.min() < after.max() < 1


def test_exclusive_probabilities_sum_to_one_after_curves() -> None:
    random = np.random.default_rng(2)
    logits = random.normal(size=(2000, 3))
    truth = np.array([random.multinomial(1, row) for row in softmax(2 * logits, axis=1)], bool)
    published = softmax(logits, axis=1)
    found = fit_class_adjustments(truth, published, ("isotonic", "platt", "isotonic"), multi_label=False)
    np.testing.assert_allclose(adjust_classes(published, found, multi_label=False).sum(axis=1), 1)


@pytest.mark.parametrize("methods", [("intercept",) * 3, ("platt",) * 3])
def test_a_hundred_labels_improve_shifted_probabilities(methods: tuple[Method, ...]) -> None:
    """Fitted on 100 rows, judged on 20,000; cross-validation estimates that without them."""
    fresh_truth, fresh = shifted(20000, seed=9)
    gains, estimates = [], []
    for seed in range(10):
        truth, published = shifted(100, seed)
        found = fit_class_adjustments(truth, published, methods, multi_label=True)
        gains.append(brier_score(fresh_truth, adjust_classes(fresh, found, multi_label=True)))
        validated = cross_validate_adjustments(truth, published, np.arange(100), methods, multi_label=True)
        estimates.append(brier_score(truth, validated))
    before = brier_score(fresh_truth, fresh).mean()
    assert np.mean(gains) < before - 0.05
    assert np.mean(estimates) == pytest.approx(np.mean(gains), abs=0.015)


def test_a_patients_labels_do_not_adjust_his_own_rows() -> None:
    truth, published = shifted(60)
    patients = np.repeat(np.arange(20), 3)
    methods: tuple[Method, ...] = ("intercept",) * 3
    first = cross_validate_adjustments(truth, published, patients, methods, multi_label=True)
    truth[:3] = ~truth[:3]
    second = cross_validate_adjustments(truth, published, patients, methods, multi_label=True)
    np.testing.assert_array_equal(first[:3], second[:3])
    assert (first[3:] != second[3:]).any()
    with pytest.raises(ValueError, match="at least 10 patients"):
        cross_validate_adjustments(truth[:6], published[:6], patients[:6], methods, multi_label=True)
