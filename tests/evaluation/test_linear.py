"""Linear classifiers: scikit-learn's own numbers, chosen by validation rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import clocs.evaluation.linear as linear
from clocs.core.errors import ConfigError
from clocs.evaluation.linear import fit_linear
from clocs.evaluation.model_outputs import ModelOutputs


def make_rows(
    seed: int, count: int = 150, classes: int = 3, *, multi_label: bool = False, shift: float = 1.0, length: int = 8
) -> ModelOutputs:
    """Normal values of unequal scales, moved by the classes they have."""
    random = np.random.default_rng(seed)
    one = np.eye(classes, dtype=bool)[random.integers(0, classes, count)]
    truth = random.random((count, classes)) < 0.3 if multi_label else one
    values = random.normal(size=(count, length))
    values += shift * truth @ np.random.default_rng(99).normal(size=(classes, length))
    values = 3 + values * np.geomspace(0.3, 3, length)
    who = np.arange(count)
    return ModelOutputs(values.astype(np.float32), truth, who, who, tuple("abcdefgh"[:classes]))


def literal(
    train: ModelOutputs, validation: ModelOutputs, test: ModelOutputs, multi_label: bool
) -> tuple[float, npt.NDArray[np.float64]]:
    """scikit-learn used bare: the strength with the best validation AUC, and its test probabilities."""
    scaler = StandardScaler().fit(train.values.astype(np.float64))
    fitted, chosen, asked = (scaler.transform(rows.values.astype(np.float64)) for rows in (train, validation, test))
    found = []
    for strength in (0.001, 0.01, 0.1, 1.0, 10.0):
        model = LogisticRegression(C=strength, max_iter=500)
        model = OneVsRestClassifier(model) if multi_label else model
        model.fit(fitted, train.truth if multi_label else train.truth.argmax(1))
        score = roc_auc_score(validation.truth, model.predict_proba(chosen))
        found.append((score, -strength, model.predict_proba(asked)))
    _, strength, scores = max(found, key=lambda one: one[:2])
    return -strength, scores


@pytest.mark.parametrize(
    ("classes", "multi_label"),
    [(2, False), (4, False), (2, True), (4, True)],
    ids=["two", "four", "2labels", "4labels"],
)
def test_equal_to_scikit_learn(classes: int, multi_label: bool) -> None:
    strengths = set()
    for seed in range(4):
        train, validation, test = (
            make_rows(10 * seed + part, classes=classes, multi_label=multi_label, shift=0.4) for part in range(3)
        )
        found = fit_linear(train, validation)
        strength, scores = literal(train, validation, test, multi_label)
        assert found.strength == strength
        assert found.multi_label is multi_label
        np.testing.assert_allclose(found.probabilities(test.values), scores, atol=1e-6)
        strengths.add(strength)
    assert len(strengths) > 1, "validation had something to choose"


def test_one_row_with_two_classes_makes_a_task_multi_label() -> None:
    train, validation = make_rows(0), make_rows(1)
    validation.truth[0] = True
    assert fit_linear(train, validation).multi_label


def test_constant_features_are_accepted() -> None:
    train, validation = make_rows(0), make_rows(1)
    dead = [replace(rows, values=np.pad(rows.values, ((0, 0), (0, 2)))) for rows in (train, validation)]
    found = fit_linear(*dead)
    np.testing.assert_allclose(
        found.probabilities(dead[1].values), fit_linear(train, validation).probabilities(validation.values), atol=1e-4
    )


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**20),
    count=st.integers(2, 30),
    classes=st.integers(2, 5),
    multi_label=st.booleans(),
    solver=st.sampled_from(["lbfgs", "lbfgs", "adam"]),
    absent=st.integers(0, 4),
)
def test_a_class_without_a_training_row_is_never_predicted(
    seed: int, count: int, classes: int, multi_label: bool, solver: linear.Solver, absent: int
) -> None:
    train, validation, test = (make_rows(seed + part, n, classes) for part, n in enumerate((count, 20, 50)))
    if multi_label:
        train, validation = (make_rows(seed + part, n, classes, multi_label=True) for part, n in ((0, count), (1, 20)))
    train.truth[:, absent % classes] = False
    if not multi_label:
        train = train.select(np.flatnonzero(train.truth.any(1)))
        if train.truth.any(0).sum() < 2:
            with pytest.raises(ConfigError, match="larger fraction"):
                fit_linear(train, validation, solver=solver)
            return
    found = fit_linear(train, validation, solver=solver).probabilities(test.values)
    assert np.isfinite(found).all()
    unknown = np.flatnonzero(~train.truth.any(axis=0))
    assert found[:, unknown].max() < 1e-6
    assert multi_label or not set(found.argmax(axis=1)) & set(unknown.tolist())


def test_a_label_of_every_row_has_probability_one() -> None:
    train, validation = make_rows(0, multi_label=True), make_rows(1, multi_label=True)
    train.truth[:, 1] = True
    assert fit_linear(train, validation).probabilities(validation.values)[:, 1].min() > 1 - 1e-6


def test_a_single_class_is_rejected() -> None:
    train = make_rows(0)
    train.truth[:] = [True, False, False]
    for solver in ("lbfgs", "adam"):
        with pytest.raises(ConfigError, match=r"single class.*\(--label-fraction, --num-labelled-patients\)"):
            fit_linear(train, make_rows(1), solver=solver)


def test_validation_rows_of_a_single_class_are_rejected() -> None:
    validation = make_rows(1)
    validation.truth[:] = [True, False, False]
    with pytest.raises(ConfigError, match="validation rows have a single class"):
        fit_linear(make_rows(0), validation)


@pytest.mark.parametrize("multi_label", [False, True])
def test_adam_learns_and_is_deterministic(multi_label: bool) -> None:
    train, validation, test = (make_rows(part, 400, multi_label=multi_label, length=64) for part in range(3))
    found, again, other = (fit_linear(train, validation, solver="adam", seed=seed) for seed in (0, 0, 1))
    assert roc_auc_score(test.truth, found.probabilities(test.values)) > 0.9
    assert found.strength is None
    np.testing.assert_array_equal(found.weight, again.weight)
    assert not np.array_equal(found.weight, other.weight)


def test_adam_keeps_the_weights_of_the_best_validation_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation labels that contradict training: the longer it trains, the worse, so the start is kept."""
    monkeypatch.setattr(linear, "ADAM_LEARNING_RATE", 0.01)
    train, validation = make_rows(0, shift=4.0), make_rows(1, shift=4.0)
    contrary = replace(validation, truth=np.roll(validation.truth, 1, axis=1))

    def loss(fitted: linear.LinearClassifier) -> float:
        return float(log_loss(contrary.truth.argmax(1), fitted.probabilities(contrary.values)))

    torch.manual_seed(0)
    assert loss(fit_linear(train, contrary, solver="adam")) < 0.7 * loss(fit_linear(train, validation, solver="adam"))
