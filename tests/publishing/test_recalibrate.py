"""Tests of the calibration of a published classifier on labels of one hospital."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.inference.classifier import Classifier
from clocs.inference.pretrained import load_encoder
from clocs.inference.reliability import LocalCalibration, LocalClass, ReliabilityBin
from clocs.inference.results import ClassProbability
from clocs.metrics.local_calibration import ClassAdjustment, adjust_classes
from clocs.publishing import recalibrate as module
from clocs.publishing.recalibrate import SECTION, recalibrate
from clocs.store.store import Store
from clocs.training.encoder_folder import read_config
from tests.evaluation.conftest import make_store
from tests.inference.conftest import make_classifier, make_encoder
from tests.inference.test_abstention import adult


@pytest.fixture
def ward(tmp_path: Path) -> Store:
    """Eighty recordings of forty patients, whose rhythms have the names of the classifier's classes."""
    return make_store(tmp_path / "ward", num_records=80, seed=4)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    folder = make_encoder(tmp_path / "encoder")
    made = make_classifier(read_config(folder)["weights_sha256"], classes=4, max_distance=1e9)
    made.save(folder / "classifiers" / "mine")
    (folder / "README.md").write_text("# A card\n")
    return folder


@pytest.fixture(autouse=True)
def _open_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "passes_gate", lambda recording, heart_rates: True)


def test_a_calibrated_encoder_says_so_everywhere(encoder: Path, ward: Store, tmp_path: Path) -> None:
    found = recalibrate(encoder, ward, tmp_path / "out")
    made, before = load_encoder(tmp_path / "out"), load_encoder(encoder)
    local = made.classifier().card.lead_sets[0].local
    assert local is not None
    assert (local.recordings, local.store_sha256) == (found["recordings"]["labelled"], ward.sha256)
    names = [item.name for item in made.classifier().card.classes]
    methods = {name: one.adjustment.method for name, one in zip(names, local.classes, strict=True)}
    assert methods["GSVT"] == "published", "the store has no such class"
    assert set(methods.values()) >= {"intercept"}
    classified, published = made.classify(adult()), before.classify(adult())
    assert any(f"calibrated on {local.patients} patients of your hospital" in note for note in classified.notes)
    by_name = {item.name: item for item in classified.classes}
    assert "with the class 0, too few to calibrate: as published" in by_name["GSVT"].local_record
    old = np.array([[{item.name: item for item in published.classes}[name].probability for name in methods]])
    expected = adjust_classes(old, [one.adjustment for one in local.classes], multi_label=False)[0]
    assert [by_name[name].probability for name in methods] == pytest.approx(expected, abs=1e-6)
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.startswith(f"# A card\n\n{SECTION}\n")
    assert "| GSVT | 0 | published |" in card


def test_it_starts_from_what_was_published(encoder: Path, ward: Store, tmp_path: Path) -> None:
    """A second calibration on the same labels gives the same files, not an adjustment of an adjustment."""
    recalibrate(encoder, ward, tmp_path / "once")
    recalibrate(tmp_path / "once", ward, tmp_path / "twice")
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("once", "twice")
    )
    assert first == second


def test_what_cannot_be_calibrated_is_refused(encoder: Path, ward: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is the encoder itself"):
        recalibrate(encoder, ward, encoder)
    with pytest.raises(ConfigError, match="No classifier 'other'; the encoder has mine"):
        recalibrate(encoder, ward, tmp_path / "out", classifier="other")
    with pytest.raises(ConfigError, match="the classifier has SR, AFIB, GSVT, SB"):
        recalibrate(encoder, ward, tmp_path / "out", task="sex")
    few = make_store(tmp_path / "few", num_records=12, seed=4)
    with pytest.raises(ConfigError, match=r"Only \d+ patients take part"):
        recalibrate(encoder, few, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_recordings_longer_than_those_of_training_take_no_part(encoder: Path, ward: Store, tmp_path: Path) -> None:
    """Recordings of the ward have more than one frame."""
    sha256 = read_config(encoder)["weights_sha256"]
    make_classifier(sha256, classes=4, max_frames=1).save(encoder / "classifiers" / "mine")
    with pytest.raises(ConfigError, match="Only 0 patients take part"):
        recalibrate(encoder, ward, tmp_path / "out")


def local_class(patients: int, **adjustment: Any) -> LocalClass:
    bins = (ReliabilityBin(0.0, 0.5, 40, 0.2, 0.25), ReliabilityBin(0.5, 1.0, 1, 0.7, 1.0))
    return LocalClass(patients, ClassAdjustment(**adjustment), bins, {"auc": {"value": 0.9, "low": None, "high": None}})


def test_a_record_has_the_interval_of_wilson(tmp_path: Path) -> None:
    """For 10 of 40: 14 % to 40 %. Saved and read again."""
    classes = (local_class(30, method="platt", slope=1.0, offset=-9.0), local_class(9, method="intercept", offset=-9.0))
    local = LocalCalibration(41, 41, "0" * 64, (*classes, local_class(2, method="published")))
    made = make_classifier("0" * 64)
    item = replace(made.card.lead_sets[0], local=local)
    card = made.card.model_copy(update={"lead_sets": (item, *made.card.lead_sets[1:])})
    replace(made, card=card).save(tmp_path)
    loaded = Classifier.load(tmp_path)
    assert loaded.card == card
    features = np.zeros((1, loaded.weights[0].weight.shape[1]), np.float32)
    (values,) = loaded.probabilities(features, 0)
    assert values.argmax() == 2
    assert values[:2].max() < 0.01
    assert local.note(["SR", "AFIB", "GSVT"]) == (
        "probabilities calibrated on 41 patients of your hospital; too few with the class, so the published "
        "calibration stays: GSVT 2"
    )
    said = ClassProbability("SR", "sinus rhythm", 0.1, 0.5, None, local.classes[0]).local_record
    assert said == "in your hospital, of 40 patients with 0 to 50%, 25% had it (95% interval 14% to 40%)"
    said = ClassProbability("GSVT", "SVT", 0.9, 0.5, None, local.classes[2]).local_record
    assert said == (
        "in your hospital, of 1 patient with 50 to 100%, 100% had it (95% interval 21% to 100%); with the class 2, too "
        "few to calibrate: as published"
    )
    too_few = replace(item, local=replace(local, classes=local.classes[:1]))
    with pytest.raises(ValueError, match="1 local calibrations for 3 classes"):
        type(card).model_validate({**card.model_dump(), "lead_sets": [too_few]})
