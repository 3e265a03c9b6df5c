"""Tests of the gate between recordings and classes, with a shipped encoder and signals that are no ECG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import SignalError
from clocs.core.recording import Recording, quantize
from clocs.inference.abstention import judge_features, judge_signal
from clocs.inference.feature_space import FeatureSpace
from clocs.inference.long_recordings import require_signal
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.recordings import as_recording
from clocs.inference.report import make_report
from clocs.signals.leads import STANDARD_LEADS
from tests.inference.conftest import EMBEDDING, make_classifier, make_encoder
from tests.signals.faulty_recordings import sinus_rhythm

Array = npt.NDArray[np.float64]
TIME = np.arange(5000) / 500


def white_noise(random: np.random.Generator) -> Array:
    return random.normal(0, 0.3, (12, 5000))


def hum(random: np.random.Generator) -> Array:
    return random.uniform(0.2, 1, (12, 1)) * np.sin(2 * np.pi * 50 * TIME) + random.normal(0, 0.01, (12, 5000))


def ventricular_fibrillation(random: np.random.Generator) -> Array:
    """Waves of 5 Hz whose frequency and amplitude change."""
    wave = np.sin(2 * np.pi * 5 * TIME + 1.5 * np.sin(1.4 * np.pi * TIME)) * (1 + 0.4 * np.sin(0.6 * np.pi * TIME))
    return random.uniform(0.2, 1, (12, 1)) * wave + random.normal(0, 0.01, (12, 5000))


def flat(random: np.random.Generator) -> Array:
    return np.zeros((12, 5000))


def with_limb_equations(signal: Array) -> Array:
    one, two = signal[:2]
    return np.concatenate([[one, two, two - one, -(one + two) / 2, one - two / 2, two - one / 2], signal[6:]])


def adult() -> Recording:
    return replace(sinus_rhythm(), age=50.0)


def changed(recording: Recording, lead: str, signal: Array) -> Recording:
    """Return a recording with another signal in mV in one lead."""
    digital = recording.digital.copy()
    row = recording.leads.index(lead)
    digital[row] = np.rint(signal * recording.gain[row]) + recording.baseline[row]
    return replace(recording, digital=digital)


@pytest.fixture(scope="module")
def encoder() -> PretrainedEncoder:
    return load_encoder("clocs-small")


@pytest.mark.parametrize("make", [white_noise, hum, ventricular_fibrillation, flat])
def test_signals_without_beats_get_no_class(
    make: Callable[[np.random.Generator], Array], encoder: PretrainedEncoder
) -> None:
    signal = with_limb_equations(make(np.random.default_rng(0)))
    recording = as_recording(signal, sampling_rate=500, leads=STANDARD_LEADS, unit="mV")
    found = encoder.classify(recording)
    assert found.classes == ()
    assert found.withheld
    assert found.findings == ()
    with pytest.raises(SignalError, match="is not compared with patients"):
        require_signal(recording)


def test_a_report_has_the_reasons(encoder: PretrainedEncoder) -> None:
    report = make_report(encoder, replace(adult(), age=3.0))
    assert (report.gate, report.withheld) == (
        "withheld",
        "the patient is 3 years old, and the classes were validated on adults",
    )
    assert make_report(encoder, adult()).gate == "passed"


def test_an_adult_in_sinus_rhythm_gets_classes(encoder: PretrainedEncoder) -> None:
    found = encoder.classify(adult())
    assert (len(found.classes), found.withheld, found.findings) == (9, (), ())
    assert not any("adults" in note for note in found.notes)


def test_age_decides(encoder: PretrainedEncoder) -> None:
    child, unknown = (encoder.classify(replace(adult(), age=age)) for age in (3.0, None))
    assert child.classes == ()
    assert child.withheld == ("the patient is 3 years old, and the classes were validated on adults",)
    assert unknown.classes
    assert any("validated on adults" in note for note in unknown.notes)
    assert encoder.classify(replace(adult(), age=16.0)).classes


@pytest.mark.parametrize(
    ("signal", "fault"),
    [
        (np.zeros(5000), "flat"),
        (np.random.default_rng(1).normal(0, 0.3, 5000), "noise"),
        (np.sin(2 * np.pi * 50 * TIME), "hum"),
        (3 * np.sign(np.sin(2 * np.pi * 0.37 * TIME)) + 0.1 * np.sin(2 * np.pi * 3.3 * TIME), "motion"),
        (np.clip(2 * np.sin(2 * np.pi * 3.3 * TIME), -0.5, 0.5), "clipping"),
    ],
)
def test_a_lead_with_a_fault_is_left_out(signal: Array, fault: str, encoder: PretrainedEncoder) -> None:
    recording = changed(adult(), "V4", signal)
    verdict = judge_signal(recording)
    assert verdict.leads == tuple(lead for lead in STANDARD_LEADS if lead != "V4")
    (note,) = verdict.notes
    assert note.startswith(f"lead V4 not used: {fault}")
    found = encoder.classify(recording)
    assert found.leads == STANDARD_LEADS[:6]
    assert note in found.notes


def test_exchanged_leads_are_noticed_where_another_lead_is_left_out(encoder: PretrainedEncoder) -> None:
    """The lead that is left out is one of those that show the exchange."""
    recording = adult()
    exchanged = changed(recording, "III", np.random.default_rng(0).normal(0, 0.5, 5000))
    names = dict(zip(("I", "II"), ("II", "I"), strict=True))
    exchanged = replace(exchanged, leads=tuple(names.get(lead, lead) for lead in exchanged.leads))
    found = encoder.classify(exchanged)
    assert found.classes == ()
    assert any("lead_equations" in reason for reason in found.withheld)


def test_a_lead_that_is_flat_for_a_frame_withholds_the_classes(encoder: PretrainedEncoder) -> None:
    recording = adult()
    signal = recording.physical()[recording.leads.index("V3")].astype(np.float64)
    signal[: len(signal) // 2 + 10] = signal[0]
    found = encoder.classify(changed(recording, "V3", signal))
    assert found.classes == () or "V3" not in found.leads


def test_no_set_of_usable_leads_withholds_the_classes(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path)
    sha256 = load_encoder(folder).about["weights_sha256"]
    make_classifier(sha256, lead_sets=(("V1", "V4"),)).save(folder / "classifiers" / "mine")
    found = load_encoder(folder).classify(changed(adult(), "V4", np.zeros(5000)))
    assert found.classes == ()
    assert "no classifier was validated on leads I, II, III" in found.withheld[0]


def paced(recording: Recording) -> Recording:
    """Add spikes of 2 ms, 40 ms before the start of QRS, at the beats of a recording."""
    from clocs.measurements.measurements import measure

    beat = measure(recording).beat
    assert beat is not None
    signal = recording.physical().astype(np.float64)
    delay = (beat.marks["qrs_onset"] - beat.middle) / beat.sampling_rate - 0.04
    for position in beat.positions:
        at = round((position + delay) * recording.sampling_rate)
        if at >= 0:
            signal[:, at] += with_limb_equations(np.linspace(1, 1.5, 12)[:, None])[:, 0]
    return replace(recording, digital=quantize(signal), gain=np.full(12, 1000.0), baseline=np.zeros(12, np.int32))


def test_a_paced_recording_has_a_finding_and_no_class(encoder: PretrainedEncoder) -> None:
    found = encoder.classify(paced(adult()))
    assert (found.findings, found.classes) == (("paced",), ())
    assert "paced" in found.withheld[0]


def test_heart_rate_and_distance_have_limits() -> None:
    features = np.ones(3 * EMBEDDING * 4, np.float32)
    narrow = make_classifier("0" * 64, heart_rates=(50.0, 100.0), max_distance=0.9)
    assert judge_features(narrow, 0, 0 * features, 50.0) == ()
    assert "heart rate 49 per minute" in judge_features(narrow, 0, 0 * features, 49.0)[0]
    assert "unlike the recordings" in judge_features(narrow, 0, features, 70.0)[0]


def test_distances_equal_a_literal_mahalanobis_distance() -> None:
    random = np.random.default_rng(0)
    mixing = random.normal(size=(5, 5))
    means = random.normal(size=(4000, 2, 5)) @ mixing + random.normal(size=(1, 2, 5))
    features = np.concatenate([means.reshape(4000, 10), random.normal(size=(4000, 20))], axis=1)
    space = FeatureSpace.fit(features, embedding_dim=5, num_statistics=3)
    centered = means - means.mean(axis=0)
    inverse = np.linalg.inv(np.cov(centered.reshape(-1, 5), rowvar=False))
    expected = np.einsum("nle,ef,nlf->n", centered, inverse, centered) / 10
    np.testing.assert_allclose(space.distances(features), expected, rtol=0.1)
    stored = FeatureSpace.from_tensors(space.tensors(), "")
    np.testing.assert_allclose(stored.distances(features), space.distances(features), rtol=0.01)


def test_wide_embeddings_are_compared_within_some_components_of_all_sizes() -> None:
    """48 of 200 components, of unit variance and uncorrelated; a deviation in any of the larger ones counts."""
    random = np.random.default_rng(0)
    deviations = np.geomspace(10, 0.1, 200)
    space = FeatureSpace.fit(deviations * random.normal(size=(5000, 200)), embedding_dim=200, num_statistics=1)
    assert space.whitening.shape == (200, 48)
    others = deviations * random.normal(size=(5000, 200))
    np.testing.assert_allclose(np.cov((others - space.mean) @ space.whitening, rowvar=False), np.eye(48), atol=0.15)
    strange = deviations * random.normal(size=(1000, 200))
    strange[:, 25:50] *= 3
    assert space.distances(strange).min() > np.quantile(space.distances(others), 0.9)
