"""Tests of classifiers against scikit-learn, and of their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.inference.classifier import Classifier, LeadSet, LinearWeights
from clocs.inference.reliability import ReliabilityBin, reliability_bins
from clocs.metrics.calibration import reliability
from tests.inference.conftest import EMBEDDING, make_classifier

DIMENSION = 3 * EMBEDDING * 4


def fitted(multi_label: bool) -> tuple[Classifier, npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """A classifier with scikit-learn's numbers, features, and scikit-learn's probabilities of these."""
    random = np.random.default_rng(0)
    features = random.normal(2, 3, size=(200, DIMENSION)).astype(np.float32)
    scores = features @ random.normal(size=(DIMENSION, 3))
    if multi_label:
        model = OneVsRestClassifier(LogisticRegression(C=1e-3)).fit(features, scores > np.median(scores, axis=0))
        weight = np.concatenate([part.coef_ for part in model.estimators_])
        bias = np.concatenate([part.intercept_ for part in model.estimators_])
    else:
        model = LogisticRegression(C=1e-3).fit(features, scores.argmax(axis=1))
        weight, bias = model.coef_, model.intercept_
    made = make_classifier("0" * 64, multi_label=multi_label)
    weights = (LinearWeights.rounded(weight, bias), made.weights[1])
    return Classifier(made.card, weights, made.spaces), features, model.predict_proba(features)


@pytest.mark.parametrize("multi_label", [False, True])
def test_probabilities_equal_scikit_learn(multi_label: bool) -> None:
    """Weights are rounded to 11 bits, which changes probabilities in the third digit at most."""
    classifier, features, expected = fitted(multi_label)
    found = classifier.weights[0].probabilities(features, multi_label=multi_label)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert bool(np.allclose(found.sum(axis=1), 1)) is not multi_label


def test_calibration_is_linear_in_log_odds() -> None:
    classifier, features, _ = fitted(multi_label=True)
    plain = classifier.weights[0].probabilities(features, multi_label=True)
    slope, offset = np.array(classifier.card.lead_sets[0].adjustment).T
    odds = np.log(plain / (1 - plain)) * slope + offset
    np.testing.assert_allclose(classifier.probabilities(features, 0), 1 / (1 + np.exp(-odds)), atol=1e-5)


def test_each_set_of_leads_has_its_own_weights() -> None:
    classifier, features, _ = fitted(multi_label=False)
    assert classifier.probabilities(features[:, : 3 * EMBEDDING], 1).shape == (200, 3)
    with pytest.raises(ConfigError, match=f"N, {3 * EMBEDDING}"):
        classifier.probabilities(features, 1)


@pytest.mark.parametrize(
    ("leads", "expected"),
    [
        (("aVR", "II", "aVL", "V1", "V2"), [0, 1]),
        (("II", "V2", "aVL"), [1]),
        (("I",), []),
    ],
)
def test_usable_sets_need_all_their_leads(leads: tuple[str, ...], expected: list[int]) -> None:
    assert make_classifier("0" * 64).card.usable_sets(leads) == expected


def test_a_saved_classifier_is_loaded(tmp_path: Path) -> None:
    made = make_classifier("ab" * 32)
    made.save(tmp_path)
    back = Classifier.load(tmp_path)
    assert back.card == made.card
    assert [item.name for item in back.card.classes] == ["SR", "AFIB", "GSVT"], "in their own order"
    for one, other in zip(back.weights, made.weights, strict=True):
        np.testing.assert_array_equal(one.weight, other.weight)
        np.testing.assert_array_equal(one.bias, other.bias)
    tensors = load_file(tmp_path / "classifier.safetensors")
    assert {name: (value.shape, value.dtype.str) for name, value in tensors.items()} == {
        "0.weight": ((3, DIMENSION), "<f2"),
        "0.factor": ((3,), "<f4"),
        "0.bias": ((3,), "<f4"),
        "0.mean": ((4, EMBEDDING), "<f4"),
        "0.whitening": ((EMBEDDING, EMBEDDING), "<f2"),
        "0.whitening_factor": ((EMBEDDING,), "<f4"),
        "1.weight": ((3, 3 * EMBEDDING), "<f2"),
        "1.factor": ((3,), "<f4"),
        "1.bias": ((3,), "<f4"),
        "1.mean": ((1, EMBEDDING), "<f4"),
        "1.whitening": ((EMBEDDING, EMBEDDING), "<f2"),
        "1.whitening_factor": ((EMBEDDING,), "<f4"),
    }
    assert unseal((tmp_path / "classifier.json").read_bytes(), "")["format"] == "clocs-classifier-5"


@pytest.mark.parametrize("name", ["classifier.json", "classifier.safetensors"])
def test_a_flipped_bit_raises_an_error(name: str, tmp_path: Path) -> None:
    make_classifier("ab" * 32).save(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        raw = bytearray(whole)
        raw[place] ^= 1 << (place % 8)
        path.write_bytes(raw)
        with pytest.raises(IntegrityError):
            Classifier.load(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no classifier\.json"):
        Classifier.load(tmp_path)
    make_classifier("ab" * 32).save(tmp_path)
    (tmp_path / "classifier.safetensors").unlink()
    with pytest.raises(IntegrityError, match=r"classifier\.safetensors: cannot be read"):
        Classifier.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "clocs-classifier-3"}, "clocs-classifier-3"),
        ({"representation": "mean_probability"}, "mean_probability"),
        ({"lead_sets": []}, "lead_sets"),
        ({"classes": []}, "classes"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_an_invalid_card_is_rejected(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_classifier("ab" * 32).save(tmp_path)
    path = tmp_path / "classifier.json"
    path.write_bytes(seal({**unseal(path.read_bytes(), ""), **changes}))
    with pytest.raises(StoreError, match=message):
        Classifier.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("weight", np.zeros((2, EMBEDDING), np.float32)),
        ("weight", np.zeros((3, EMBEDDING))),
        ("bias", np.full(3, np.nan, np.float32)),
    ],
)
def test_arrays_of_wrong_shape_or_type_are_rejected(name: str, values: npt.NDArray[Any]) -> None:
    made = make_classifier("ab" * 32)
    wrong = replace(made.weights[0], **{name: values})
    with pytest.raises(ConfigError, match=name):
        Classifier(made.card, (wrong, made.weights[1]), made.spaces)
    with pytest.raises(ConfigError, match="2 sets of leads, got 1"):
        Classifier(made.card, made.weights[:1], made.spaces)


@pytest.mark.parametrize(
    ("lead_sets", "message"),
    [
        (lambda sets: sets[::-1], "from the largest to the smallest"),
        (lambda sets: (replace(sets[0], adjustment=sets[0].adjustment[:1]),), "1 adjustments for 3 classes"),
    ],
)
def test_lead_sets_are_ordered_and_complete(lead_sets: Any, message: str) -> None:
    card = make_classifier("ab" * 32).card
    with pytest.raises(ValidationError, match=message):
        type(card)(**{**dict(card), "lead_sets": lead_sets(card.lead_sets)})


def test_classes_are_distinct() -> None:
    card = make_classifier("ab" * 32).card
    with pytest.raises(ValidationError, match="class names must differ"):
        type(card)(**{**dict(card), "classes": (card.classes[0], card.classes[0])})


def test_a_probability_finds_its_bin() -> None:
    bins = (
        ReliabilityBin(0.0, 0.1, 5, 0.04, 0.0),
        ReliabilityBin(0.1, 0.2, 3, 0.15, 1 / 3),
        ReliabilityBin(0.9, 1.0, 9, 0.95, 1.0),
    )
    info = LeadSet(("II",), ((1.0, 0.0),) * 2, ((), bins), None, None, 1.0)
    assert info.bin_of(0, 0.1) is None
    found = {probability: info.bin_of(1, probability) for probability in (0.0, 0.1, 0.11, 0.2, 0.5, 0.9, 1.0)}
    assert found == {0.0: bins[0], 0.1: bins[0], 0.11: bins[1], 0.2: bins[1], 0.5: None, 0.9: None, 1.0: bins[2]}


def test_bins_are_counted_from_patients() -> None:
    """Ten patients by hand, two classes, four bins: empty ones are left out."""
    probability = np.array([0.1, 0.2, 0.25, 0.3, 0.9, 0.8, 1.0, 0.0, 0.9, 0.9])
    truth = np.array([0, 1, 0, 1, 1, 1, 1, 0, 0, 1], bool)
    first, second = reliability_bins(reliability(np.stack([truth, ~truth], 1), np.stack([probability] * 2, 1), bins=4))
    assert [(item.low, item.high, item.count) for item in first] == [(0.0, 0.25, 4), (0.25, 0.5, 1), (0.75, 1.0, 5)]
    assert [item.observed for item in first] == [0.25, 1.0, 0.8]
    assert [item.mean_probability for item in first] == pytest.approx([0.1375, 0.3, 0.9])
    assert [item.observed for item in second] == pytest.approx([0.75, 0.0, 0.2])
