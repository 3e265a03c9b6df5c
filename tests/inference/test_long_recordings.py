"""Tests of recordings of several minutes, which are judged and embedded minute by minute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import SignalError
from clocs.core.recording import Provenance, Recording
from clocs.inference.classification import JudgedRecording
from clocs.inference.classifier import Classifier
from clocs.inference.frame_pooling import OVERLAP, FeatureAverage
from clocs.inference.long_recordings import judge_minutes, require_signal
from clocs.inference.preparation import PreparedFrames, prepare
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.signals.resampling import Floats
from tests.inference.conftest import EMBEDDING, LEADS, POLICY, make_classifier, make_encoder
from tests.signals.faulty_recordings import sinus_rhythm

MINUTE = 60 * 500


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    """With the classifiers ``four``, of four leads or lead II, and ``single``, of lead II and parts of three frames."""
    folder = make_encoder(tmp_path_factory.mktemp("encoder"), POLICY.model_copy(update={"leads": LEADS}))
    encoder = load_encoder(folder)
    sha256 = encoder.about["weights_sha256"]
    encoder.classifiers["four"] = make_classifier(sha256)
    encoder.classifiers["single"] = make_classifier(sha256, lead_sets=(("II",),), max_frames=3)
    return encoder


def beating(minutes: int) -> Recording:
    """Return an adult's sinus rhythm in the four leads."""
    one = replace(sinus_rhythm(), age=50.0).select(LEADS)
    assert one.num_samples * 6 == MINUTE
    return replace(one, digital=np.tile(one.digital, (1, 6 * minutes)))


def with_noise(recording: Recording, minute: int) -> Recording:
    """Return a recording with noise in a minute of all leads."""
    digital = recording.digital.copy()
    noise = np.random.default_rng(minute).normal(0, 300, (len(digital), MINUTE))
    digital[:, minute * MINUTE : (minute + 1) * MINUTE] = noise.astype(np.int16)
    return replace(recording, digital=digital)


def without(recording: Recording, minute: int, lead: str) -> Recording:
    """Return a recording with a lead that is zero for a minute."""
    digital = recording.digital.copy()
    digital[recording.leads.index(lead), minute * MINUTE : (minute + 1) * MINUTE] = 0
    return replace(recording, digital=digital)


def test_shorter_recordings_are_judged_as_a_whole() -> None:
    short = replace(beating(2), digital=beating(2).digital[:, : 2 * MINUTE - 1])
    assert [minute.recording for minute in judge_minutes(short)] == [short]
    assert [minute.recording.num_samples for minute in judge_minutes(beating(2))] == [MINUTE, MINUTE]


def test_minutes_are_those_of_fractional_rates() -> None:
    """A minute at 128.31 Hz has 7,698.6 samples: minutes do not drift, and no sample is lost."""
    recording = replace(beating(2), sampling_rate=128.31)
    minutes = [minute.recording.digital for minute in judge_minutes(recording)]
    starts = np.cumsum([part.shape[1] for part in minutes[:-1]])
    assert starts.tolist() == [round(7698.6 * number) for number in range(1, 7)]
    np.testing.assert_array_equal(np.concatenate(minutes, axis=1), recording.digital)


def test_features_are_those_of_the_minutes_that_can_be_judged(
    encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = with_noise(beating(3), 1)
    judged: list[Floats] = []
    probabilities = Classifier.probabilities

    def noted(classifier: Classifier, features: Floats, set_index: int) -> npt.NDArray[np.float64]:
        judged.append(features[0])
        return probabilities(classifier, features, set_index)

    monkeypatch.setattr(Classifier, "probabilities", noted)
    found = encoder.classify(recording, classifier="four")
    (note,) = (note for note in found.notes if "1 of 3 minutes not used" in note)
    assert "heartbeats cannot be measured" in note
    expected = FeatureAverage(23)
    minute = replace(recording, digital=recording.digital[:, :MINUTE])
    frames = encoder.embed_prepared(prepare(minute, encoder.input, only_leads=LEADS, overlap=OVERLAP))
    expected.add(frames.reshape(-1, len(LEADS) * EMBEDDING))
    np.testing.assert_allclose(judged[0], expected.features, rtol=1e-5, atol=1e-6)
    assert any("over 2 parts of at most 60 s" in note for note in found.notes), "one part a minute"


def test_classes_are_withheld_if_most_minutes_cannot_be_judged(encoder: PretrainedEncoder) -> None:
    recording = with_noise(with_noise(beating(3), 1), 2)
    found = encoder.classify(recording)
    assert found.classes == ()
    (reason,) = found.withheld
    assert reason.startswith("2 of 3 minutes cannot be judged, most often for this reason: heartbeats cannot")
    with pytest.raises(SignalError, match="is not compared with patients: 2 of 3 minutes cannot be judged"):
        require_signal(recording)
    require_signal(with_noise(beating(3), 1))


def test_a_lead_must_be_usable_in_half_of_the_minutes(encoder: PretrainedEncoder) -> None:
    once = without(beating(3), 0, "V2")
    found = encoder.classify(once, classifier="four")
    assert found.leads == LEADS
    assert "lead V2 not usable in 1 of 3 minutes" in found.notes
    assert "1 of 3 minutes not used, most often for this reason: leads II, V2, aVL, aVR not usable" in found.notes
    twice = encoder.classify(without(once, 1, "V2"), classifier="four")
    assert twice.leads == ("II",)
    assert "lead V2 not usable in 2 of 3 minutes" in twice.notes
    assert not any("minutes not used" in note for note in twice.notes)


def test_a_length_that_differs_from_the_header_withholds_the_classes(encoder: PretrainedEncoder) -> None:
    recording = beating(3)
    found = encoder.classify(replace(recording, provenance=Provenance(num_declared_samples=MINUTE)))
    assert found.classes == ()
    assert "length: 90000 samples, header says 30000" in found.withheld[0]
    assert encoder.classify(replace(recording, provenance=Provenance(num_declared_samples=3 * MINUTE))).classes


def test_a_minute_is_embedded_once_for_classifiers_of_the_same_leads(encoder: PretrainedEncoder) -> None:
    embedded: list[tuple[tuple[str, ...], int]] = []

    def embed(prepared: PreparedFrames) -> Floats:
        embedded.append((prepared.leads, len(prepared)))
        return encoder.embed_prepared(prepared)

    four, single = ({name: encoder.classifiers[name]} for name in ("four", "single"))
    both = JudgedRecording(beating(2).select("II"), encoder.input, embed).classify(four, single)
    assert embedded == [(("II",), 23)] * 2
    assert [found.leads for found in both] == [("II",)] * 2
    assert [found.classifier for found in both] == ["four", "single"]


def test_a_lead_that_is_flat_for_a_frame_leaves_out_its_minute(encoder: PretrainedEncoder) -> None:
    recording = beating(3)
    digital = recording.digital.copy()
    digital[1, 100:2700] = digital[1, 100]
    found = encoder.classify(replace(recording, digital=digital), classifier="four")
    assert found.leads == LEADS
    assert any("1 of 3 minutes not used" in note for note in found.notes)
