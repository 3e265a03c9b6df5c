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
from sklearn.preprocessing import StandardScaler

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.files import seal, unseal
from clocs.inference.classifier import Classifier, ClassInfo, ReliabilityBin, reliability_bins
from clocs.metrics.calibration import reliability
from tests.inference.conftest import EMBEDDING, make_classifier


def fitted(multi_label: bool) -> tuple[Classifier, npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    """A classifier with scikit-learn's numbers, embeddings, and scikit-learn's probabilities of these."""
    random = np.random.default_rng(0)
    embeddings = random.normal(2, 3, size=(200, EMBEDDING)).astype(np.float32)
    scores = embeddings @ random.normal(size=(EMBEDDING, 3))
    scaler = StandardScaler().fit(embeddings)
    if multi_label:
        model = OneVsRestClassifier(LogisticRegression(C=0.01)).fit(scaler.transform(embeddings), scores > 0)
        weight = np.concatenate([part.coef_ for part in model.estimators_])
        bias = np.concatenate([part.intercept_ for part in model.estimators_])
    else:
        model = LogisticRegression(C=0.01).fit(scaler.transform(embeddings), scores.argmax(axis=1))
        weight, bias = model.coef_, model.intercept_
    made = make_classifier("0" * 64, multi_label=multi_label)
    card = made.card.model_copy(update={"temperature": 1.0})
    numbers = (values.astype(np.float32) for values in (scaler.mean_, scaler.scale_, weight, bias))
    return Classifier(card, *numbers), embeddings, model.predict_proba(scaler.transform(embeddings))


@pytest.mark.parametrize("multi_label", [False, True])
def test_probabilities_equal_scikit_learn(multi_label: bool) -> None:
    classifier, embeddings, expected = fitted(multi_label)
    np.testing.assert_allclose(classifier.probabilities(embeddings), expected, atol=1e-5)
    sums = classifier.probabilities(embeddings).sum(axis=1)
    assert bool(np.allclose(sums, 1)) is not multi_label


def test_the_temperature_divides_the_logits() -> None:
    classifier, embeddings, _ = fitted(multi_label=True)
    warm = replace(classifier, card=classifier.card.model_copy(update={"temperature": 4.0}))
    np.testing.assert_array_equal(warm.logits(embeddings), classifier.logits(embeddings))
    odds = [np.log(p / (1 - p)) for p in (warm.probabilities(embeddings), classifier.probabilities(embeddings))]
    np.testing.assert_allclose(odds[0] * 4, odds[1], atol=1e-5)


def test_calibration_applies_to_the_mean_not_to_rows() -> None:
    classifier, embeddings, expected = fitted(multi_label=True)
    chosen = ((2.0, 0.5), (1.0, 0.0), (1.0, -1.0))
    keener = replace(classifier, card=classifier.card.model_copy(update={"adjustment": chosen}))
    np.testing.assert_array_equal(keener.probabilities(embeddings), classifier.probabilities(embeddings))
    mean = expected[:8].mean(axis=0)
    odds = np.log(mean / (1 - mean)) * [2, 1, 1] + [0.5, 0, -1]
    np.testing.assert_allclose(list(keener.classify(embeddings[:8]).values()), 1 / (1 + np.exp(-odds)), atol=1e-5)


def test_a_recording_has_the_mean_probability_of_its_rows() -> None:
    classifier, embeddings, expected = fitted(multi_label=False)
    found = classifier.classify(embeddings[:8])
    assert list(found) == ["SR", "AFIB", "GSVT"]
    np.testing.assert_allclose(list(found.values()), expected[:8].mean(axis=0), atol=1e-5)
    with pytest.raises(ConfigError, match="at least one embedding"):
        classifier.classify(embeddings[:0])
    with pytest.raises(ConfigError, match=f"N, {EMBEDDING}"):
        classifier.classify(embeddings[:, 1:])


def test_a_saved_classifier_is_loaded(tmp_path: Path) -> None:
    made = make_classifier("ab" * 32)
    made.save(tmp_path)
    back = Classifier.load(tmp_path)
    assert back.card == made.card
    assert [item.name for item in back.card.classes] == ["SR", "AFIB", "GSVT"], "in their own order"
    for name in ("mean", "scale", "weight", "bias"):
        np.testing.assert_array_equal(getattr(back, name), getattr(made, name))
    tensors = load_file(tmp_path / "classifier.safetensors")
    assert {name: (value.shape, value.dtype.str) for name, value in tensors.items()} == {
        "mean": ((EMBEDDING,), "<f4"),
        "scale": ((EMBEDDING,), "<f4"),
        "weight": ((3, EMBEDDING), "<f4"),
        "bias": ((3,), "<f4"),
    }
    assert unseal((tmp_path / "classifier.json").read_bytes(), "")["format"] == "clocs-classifier-2"


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
        ({"format": "clocs-classifier-1"}, "clocs-classifier-1"),
        ({"temperature": 0}, "temperature"),
        ({"adjustment": ((1.0, 0.0),)}, "1 adjustments for"),
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
        ("mean", np.zeros(EMBEDDING)),
        ("weight", np.zeros((2, EMBEDDING), np.float32)),
        ("bias", np.full(3, np.nan, np.float32)),
        ("scale", np.zeros(EMBEDDING, np.float32)),
    ],
)
def test_arrays_of_wrong_shape_or_type_are_rejected(name: str, values: npt.NDArray[Any]) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(make_classifier("ab" * 32), **{name: values})  # type: ignore[arg-type]


def test_a_card_without_leads_can_be_read(tmp_path: Path) -> None:
    """Its leads are unknown, so all leads are accepted."""
    make_classifier("ab" * 32, leads=("II", "V2")).save(tmp_path)
    assert Classifier.load(tmp_path).card.unknown_leads(("ECG", "II", "ECG", "I")) == ("ECG", "I")
    path = tmp_path / "classifier.json"
    body = unseal(path.read_bytes(), "")
    assert body.pop("leads") == ["II", "V2"]
    path.write_bytes(seal(body))
    assert Classifier.load(tmp_path).card.unknown_leads(("ECG", "II")) == ()


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
    info = ClassInfo("AFIB", "atrial fibrillation", 0.2, bins)
    found = {probability: info.bin_of(probability) for probability in (0.0, 0.1, 0.11, 0.2, 0.5, 0.9, 1.0)}
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
