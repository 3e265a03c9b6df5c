"""Tests of the prediction sets of a recording, and of their words in reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clocs.inference.batch_table import report_row
from clocs.inference.classifier import Classifier
from clocs.inference.fhir import report_to_fhir
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.report import make_report
from tests.inference.conftest import make_classifier, make_encoder
from tests.inference.test_abstention import adult, paced


def with_thresholds(folder: Path, thresholds: tuple[float, ...], *, multi_label: bool = False) -> PretrainedEncoder:
    make_encoder(folder)
    sha256 = load_encoder(folder).about["weights_sha256"]
    made = make_classifier(sha256, set_thresholds=thresholds, multi_label=multi_label)
    made.save(folder / "classifiers" / "mine")
    return load_encoder(folder)


def test_a_set_has_the_classes_above_their_thresholds(tmp_path: Path) -> None:
    """The middle class has the highest probability; a threshold that equals a probability includes it."""
    free = with_thresholds(tmp_path / "free", (0.0, 0.0, 0.0)).classify(adult())
    by_name = {item.name: item.probability for item in free.classes}
    order = [item.name for item in free.classes]
    assert free.prediction_set == tuple(order)
    names = ("SR", "AFIB", "GSVT")
    limits = {order[0]: by_name[order[0]], order[1]: by_name[order[1]] - 1e-6, order[2]: by_name[order[2]] + 1e-6}
    two = with_thresholds(tmp_path / "two", tuple(limits[name] for name in names)).classify(adult())
    assert two.prediction_set == tuple(order[:2])
    expected = ", ".join(f"{name} (meaning of {name})" for name in order[:2])
    assert two.set_statement == f"cannot tell apart: {expected}"


@pytest.mark.parametrize(
    ("thresholds", "words"),
    [((1.0, 0.0, 1.0), "only AFIB (meaning of AFIB) fits"), ((1.0, 1.0, 1.0), "none of the classes fits"), ((), "")],
)
def test_small_sets_have_words_of_their_own(thresholds: tuple[float, ...], words: str, tmp_path: Path) -> None:
    encoder = with_thresholds(tmp_path, thresholds)
    report = make_report(encoder, adult())
    assert report.classification is not None
    assert report.classification.set_statement == words
    assert report_row("a", report)["prediction_set"] == words
    assert (words in str(report_to_fhir(report))) or not words


def test_withheld_and_paced_recordings_have_no_set(tmp_path: Path) -> None:
    encoder = with_thresholds(tmp_path, (0.0, 0.0, 0.0))
    for recording in (replace(adult(), age=3.0), paced(adult())):
        found = encoder.classify(recording)
        assert (found.prediction_set, found.set_statement) == (None, "")


def test_thresholds_are_saved_and_checked(tmp_path: Path) -> None:
    made = make_classifier("0" * 64, set_thresholds=(0.1, 0.2, 0.3))
    made.save(tmp_path)
    assert Classifier.load(tmp_path).card == made.card
    with pytest.raises(ValueError, match="2 thresholds for 3 classes"):
        make_classifier("0" * 64, set_thresholds=(0.1, 0.2))


def test_the_shipped_classifier_of_rhythms_has_sets() -> None:
    card = load_encoder("clocs-small").classifier("chapman").card
    assert [len(item.set_thresholds) for item in card.lead_sets] == [len(card.classes)] * len(card.lead_sets)
