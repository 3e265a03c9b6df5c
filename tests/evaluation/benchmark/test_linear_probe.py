"""Probes of every kind of task: what selects the strength, and classes that no labelled recording has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.linear_probe import STRENGTHS, fit_probe

PART = np.arange(900) % 3
TRAIN, VALIDATION, TEST = (np.equal(PART, part) for part in range(3))


def make_values(seed: int = 0, dimension: int = 20) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """Features of 900 recordings, and three noisy linear functions of them."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(900, dimension)).astype(np.float32)
    signal = 3 * values @ random.normal(size=(dimension, 3)) / dimension**0.5
    return values, signal + random.logistic(size=signal.shape)


@pytest.mark.parametrize("kind", ["multi-label", "multi-class", "binary"])
def test_the_strength_with_the_best_validation_auc_is_used(kind: str) -> None:
    """The test AUC is that of scikit-learn to 1e-3, on three tasks of each kind."""
    for seed in range(3):
        values, signal = make_values(seed)
        truth = {"multi-label": signal > 1, "multi-class": np.eye(3, dtype=bool)[signal.argmax(1)]}.get(
            kind, signal[:, :1] > 0
        )
        found = fit_probe(values, truth, kind=kind, train=TRAIN, validation=VALIDATION)  # type: ignore[arg-type]
        expected = {}
        for strength in found.selection:
            base = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000)
            model = base if kind == "multi-class" else OneVsRestClassifier(base)
            model.fit(values[TRAIN], truth[TRAIN].argmax(1) if kind == "multi-class" else truth[TRAIN])
            scores = model.predict_proba(values)
            scores = scores[:, -truth.shape[1] :]
            expected[strength] = scores
            auc = roc_auc_score(truth[VALIDATION], scores[VALIDATION])
            assert found.selection[strength] == pytest.approx(auc, abs=1e-3)
        test_auc = roc_auc_score(truth[TEST], expected[found.strength][TEST])
        assert roc_auc_score(truth[TEST], found.scores(values[TEST])) == pytest.approx(test_auc, abs=1e-3)
        np.testing.assert_allclose(found.scores(values), expected[found.strength], atol=5e-3)


def test_regression_is_ridge_selected_by_r2() -> None:
    values, signal = make_values()
    found = fit_probe(values, signal[:, 0], kind="regression", train=TRAIN, validation=VALIDATION)
    models = {c: Ridge(alpha=1 / c).fit(values[TRAIN], signal[TRAIN, 0]) for c in found.selection}
    scores = {c: r2_score(signal[VALIDATION, 0], model.predict(values[VALIDATION])) for c, model in models.items()}
    assert found.selection == pytest.approx(scores, abs=1e-4)
    assert found.strength == max(scores, key=lambda strength: scores[strength])
    np.testing.assert_allclose(found.scores(values)[:, 0], models[found.strength].predict(values), atol=1e-3)


def test_strengths_are_added_at_both_ends() -> None:
    values, signal = make_values()
    truth = signal > 0
    weak = fit_probe(values, truth, kind="multi-label", train=TRAIN, validation=VALIDATION, strengths=(1e-7, 1e-6))
    assert max(weak.selection) > 1e-6
    noise = np.random.default_rng(1).normal(size=(900, 200)).astype(np.float32)
    noise[:, 0] += truth[:, 0]
    strong = fit_probe(noise, truth[:, :1], kind="binary", train=TRAIN, validation=VALIDATION, strengths=(10.0, 100.0))
    assert min(strong.selection) < 10
    for fit in (weak, strong):
        ends = min(fit.selection), max(fit.selection)
        assert fit.strength not in ends or len(fit.selection) == 2 + 4 + 2


def test_cross_validation_keeps_patients_together() -> None:
    """Features name the patient, and labels are the patient's: folds over recordings would leak."""
    random = np.random.default_rng(0)
    patients = np.repeat(np.arange(60), 5)
    truth = (random.random(60) < 0.5)[patients][:, None]
    names = random.normal(size=(60, 200)).astype(np.float32)[patients]
    everyone = np.ones(300, bool)
    kept = fit_probe(names, truth, kind="binary", train=everyone, patients=patients)
    leaking = fit_probe(names, truth, kind="binary", train=everyone, patients=np.arange(300))
    assert max(leaking.selection.values()) > 0.99
    assert max(kept.selection.values()) < 0.7
    with pytest.raises(ConfigError, match="Pass patients, or validation"):
        fit_probe(names, truth, kind="binary", train=everyone)


def test_cross_validation_sees_labelled_recordings_only() -> None:
    values, signal = make_values()
    truth, labelled = signal > 0, TRAIN & (np.arange(900) < 300)
    changed = np.where(labelled[:, None], truth, ~truth)
    first, second = (
        fit_probe(values, labels, kind="multi-label", train=labelled, patients=np.arange(900))
        for labels in (truth, changed)
    )
    assert first.selection == second.selection
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize("kind", ["multi-label", "multi-class"])
@pytest.mark.parametrize("solver", ["logistic", "ridge"])
def test_a_class_without_a_labelled_positive_has_a_constant_score(kind: str, solver: str) -> None:
    values, signal = make_values()
    truth = np.eye(3, dtype=bool)[signal.argmax(1)] if kind == "multi-class" else signal > 0
    labelled = TRAIN & ~truth[:, 1]
    found = fit_probe(values, truth, kind=kind, train=labelled, validation=VALIDATION, solver=solver)  # type: ignore[arg-type]
    assert found.absent.tolist() == [False, True, False]
    assert np.ptp(found.logits(values)[:, 1]) == 0
    assert found.scores(values)[:, 1].max() < 1e-9
    assert roc_auc_score(truth[TEST, 0], found.scores(values[TEST])[:, 0]) > 0.6


def test_ridge_ranks_like_logistic_regression() -> None:
    values, signal = make_values()
    aucs = [
        roc_auc_score(signal[TEST] > 0, fit.scores(values[TEST]))
        for fit in (
            fit_probe(values, signal > 0, kind="multi-label", train=TRAIN, validation=VALIDATION, solver="ridge"),
            fit_probe(values, signal > 0, kind="multi-label", train=TRAIN, validation=VALIDATION),
        )
    ]
    assert aucs[0] == pytest.approx(aucs[1], abs=0.01)
    assert set(STRENGTHS) <= set(
        fit_probe(values, signal > 0, kind="multi-label", train=TRAIN, validation=VALIDATION).selection
    )


def test_a_single_class_is_an_error() -> None:
    values, signal = make_values()
    truth = (signal[:, :1] > 0) & ~VALIDATION[:, None]
    with pytest.raises(ConfigError, match="single class"):
        fit_probe(values, truth, kind="binary", train=TRAIN, validation=VALIDATION)
