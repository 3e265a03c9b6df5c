"""Synthetic ECGs: repeatable, physically consistent, and what their labels say."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, find_peaks, sosfiltfilt

from clocs.core.errors import ConfigError, FormatError
from clocs.core.recording import Recording
from clocs.core.sources import FolderSource
from clocs.datasets.dataset import DATASETS, Entry
from clocs.datasets.synthetic import SYNTHETIC, SyntheticOptions
from clocs.signals.leads import STANDARD
from clocs.signals.quality import GatePolicy, assess

NOWHERE = FolderSource.__new__(FolderSource)
"""A source that fails when touched: none is needed."""
RHYTHMS = ("SR", "SB", "ST", "AFIB", "PVC")


def load(number: int, **options: float) -> Recording:
    return SYNTHETIC.load(NOWHERE, Entry(f"synthetic/{number:07d}"), SYNTHETIC.parse_options(options))


def entries(**options: float) -> list[Entry]:
    return list(SYNTHETIC.entries(NOWHERE, SYNTHETIC.parse_options(options)))


def of_rhythm(rhythm: str, count: int) -> list[Recording]:
    chosen = (entry for entry in SYNTHETIC.entries(NOWHERE, SyntheticOptions()) if entry.labels == (rhythm,))
    return [SYNTHETIC.load(NOWHERE, entry, SyntheticOptions()) for entry in itertools.islice(chosen, count)]


def r_peaks(recording: Recording) -> npt.NDArray[np.intp]:
    """Beats found without the generator's help: steep stretches over all chest leads together."""
    chest = recording.select(("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")).signal
    steep = np.square(sosfiltfilt(butter(2, (5, 25), "bandpass", fs=recording.rate, output="sos"), chest)).sum(axis=0)
    smooth = np.convolve(steep, np.ones(60) / 60, "same")
    inside = np.concatenate([np.zeros(100), smooth, np.zeros(100)])
    found, _ = find_peaks(inside, height=0.1 * np.quantile(smooth, 0.98), distance=int(0.28 * recording.rate))
    return np.asarray(found - 100)


def intervals(recording: Recording) -> npt.NDArray[np.float64]:
    """Seconds between beats that lie wholly inside."""
    beats = r_peaks(recording)
    beats = beats[(beats > 60) & (beats < recording.samples - 60)]
    return np.diff(beats) / recording.rate


def beat_average(recording: Recording) -> npt.NDArray[np.float64]:
    """The median QRS of all leads as one vector."""
    signal = recording.signal
    cuts = [signal[:, beat - 40 : beat + 40] for beat in r_peaks(recording) if 40 <= beat < recording.samples - 40]
    average = np.median(cuts, axis=0)
    return np.asarray(average - np.median(average, axis=1, keepdims=True), np.float64).ravel()


def test_it_is_registered_and_needs_no_source() -> None:
    assert DATASETS.get("synthetic") is SYNTHETIC
    assert not SYNTHETIC.needs_source
    assert set(SYNTHETIC.classes) == set(RHYTHMS)


def test_a_recording_has_the_form_that_was_asked_for() -> None:
    recording = load(3)
    assert recording.digital.shape == (12, 5000)
    assert recording.digital.dtype == np.int16
    assert recording.leads == STANDARD
    assert recording.unit == "mV"
    assert set(recording.gain) == {1000.0}
    assert recording.provenance.format == "synthetic"


def test_a_recording_carries_what_its_entry_says() -> None:
    for entry in entries(records=50):
        made = SYNTHETIC.load(NOWHERE, entry, SyntheticOptions(records=50))
        assert (made.record_id, made.patient_id, made.age, made.sex, made.labels) == (
            entry.record_id,
            entry.patient_id,
            entry.age,
            entry.sex,
            entry.labels,
        )


def test_order_and_number_of_records_change_nothing() -> None:
    forward = {entry.file: load(int(entry.record_id), records=40).digital for entry in entries(records=40)}
    for entry in reversed(entries(records=4000)[:40]):
        again = load(int(entry.record_id), records=4000)
        np.testing.assert_array_equal(again.digital, forward[entry.file])


def test_more_records_only_add_to_those_before() -> None:
    assert entries(records=3000)[:1500] == entries(records=1500)


def test_records_and_seeds_differ() -> None:
    signals = [load(0), load(1), load(0, seed=1), load(0, recordings_per_patient=1, seed=2)]
    for one, other in itertools.combinations(signals, 2):
        assert not np.array_equal(one.digital, other.digital)
        assert one.provenance.sha256 != other.provenance.sha256


def test_identity_is_of_the_record_not_of_the_set() -> None:
    assert load(7, records=10).provenance.sha256 == load(7, records=99).provenance.sha256
    assert load(7).provenance.sha256 != load(7, rate=250).provenance.sha256


def test_fewer_leads_are_the_same_leads() -> None:
    whole, four, one = load(5), load(5, leads=4), load(5, leads=1)
    assert four.leads == ("II", "V2", "aVL", "aVR")
    assert one.leads == ("II",)
    np.testing.assert_array_equal(four.digital, whole.select(four.leads).digital)
    np.testing.assert_array_equal(one.digital, whole.select(one.leads).digital)


def test_einthoven_and_goldberger_hold_to_two_microvolt() -> None:
    for number in range(50):
        recording = load(number)
        lead = dict(zip(recording.leads, recording.digital.astype(float), strict=True))
        assert np.abs(lead["I"] + lead["III"] - lead["II"]).max() == 0
        assert np.abs(lead["aVR"] + (lead["I"] + lead["II"]) / 2).max() <= 2
        assert np.abs(lead["aVL"] - (lead["I"] - lead["III"]) / 2).max() <= 2
        assert np.abs(lead["aVF"] - (lead["II"] + lead["III"]) / 2).max() <= 2
        assert np.abs(lead["aVR"] + lead["aVL"] + lead["aVF"]).max() <= 2


def test_the_default_gate_passes_everything() -> None:
    for entry in entries(records=400):
        assert assess(SYNTHETIC.load(NOWHERE, entry, SyntheticOptions()), GatePolicy()) == []


@pytest.mark.parametrize(("rhythm", "low", "high"), [("SR", 60, 100), ("SB", 40, 60), ("ST", 100, 150)])
def test_sinus_rhythms_beat_at_their_rate_and_evenly(rhythm: str, low: float, high: float) -> None:
    for recording in of_rhythm(rhythm, 40):
        gaps = intervals(recording)
        assert low <= 60 / np.median(gaps) <= high, recording.record_id
        assert np.std(gaps) / np.mean(gaps) < 0.06, recording.record_id


def test_fibrillation_is_irregular_and_without_p() -> None:
    spread = [np.std(gaps) / np.mean(gaps) for gaps in map(intervals, of_rhythm("AFIB", 40))]
    assert np.median(spread) > 0.15
    assert np.mean(np.array(spread) > 0.08) > 0.95
    sinus, fibrillating = (
        np.mean([wave for recording in of_rhythm(rhythm, 30) for wave in p_waves(recording)])
        for rhythm in ("SR", "AFIB")
    )
    assert sinus > 0.06
    assert abs(fibrillating) < 0.03


def p_waves(recording: Recording) -> list[float]:
    """mV in II 140 ms before R, above the stretch before it, for beats that come late enough for T to be over."""
    signal = recording.signal[recording.leads.index("II")]
    late = [beat for before, beat in itertools.pairwise(r_peaks(recording)) if beat - before > 330]
    return [float(signal[beat - 85 : beat - 55].mean() - signal[beat - 150 : beat - 130].mean()) for beat in late]


def test_ectopic_beats_come_early_wide_and_with_a_pause() -> None:
    for recording in of_rhythm("PVC", 40):
        gaps = intervals(recording)
        usual = np.mean(gaps)  # the pause makes up for the early beat
        early = np.flatnonzero(gaps[:-1] < 0.8 * usual)
        assert len(early), recording.record_id
        assert (gaps[early + 1] > 1.1 * usual).all(), recording.record_id
    widths = [wide_beats(recording) for recording in of_rhythm("PVC", 20)]
    assert np.mean([width > 0 for width in widths]) > 0.9
    assert not any(wide_beats(recording) for recording in of_rhythm("SR", 20))


def wide_beats(recording: Recording) -> int:
    """Positive QRS in aVF wider than 60 ms at half its height."""
    signal = recording.signal[recording.leads.index("aVF")]
    found, about = find_peaks(signal, prominence=0.5, width=0.06 * recording.rate, rel_height=0.5)
    return int(np.sum(about["widths"] < 0.16 * recording.rate)) if len(found) else 0


def test_recordings_of_a_patient_resemble_each_other_more() -> None:
    sinus = [entry for entry in entries(records=300) if entry.labels[0] in ("SR", "SB", "ST")]
    pairs = [pair for pair in itertools.pairwise(sinus) if pair[0].patient_id == pair[1].patient_id][:25]
    first, second = (np.array([beat_average(load(int(pair[place].record_id))) for pair in pairs]) for place in (0, 1))
    alike = np.corrcoef(first, second)[: len(pairs), len(pairs) :]
    own, others = np.diag(alike), alike[~np.eye(len(pairs), dtype=bool)]
    assert own.min() > 0.95
    assert own.mean() > others.mean() + 0.05
    assert np.mean(alike.argmax(axis=1) == np.arange(len(pairs))) > 0.8


def test_patients_own_their_recordings_age_and_sex() -> None:
    made = entries(records=90, recordings_per_patient=3)
    by_patient = {patient: list(group) for patient, group in itertools.groupby(made, lambda entry: entry.patient_id)}
    assert len(by_patient) == 30
    assert all(len(group) == 3 and len({(e.age, e.sex) for e in group}) == 1 for group in by_patient.values())
    assert len({entry.age for entry in made}) > 10


def test_every_rhythm_has_its_share() -> None:
    labels = [entry.labels[0] for entry in entries(records=5000)]
    for rhythm in RHYTHMS:
        assert 0.17 < labels.count(rhythm) / len(labels) < 0.23


def test_listing_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        listed = sum(1 for _ in SYNTHETIC.entries(NOWHERE, SyntheticOptions(records=50_000, seed=9)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert listed == 50_000
    assert peak < 2_000_000


@pytest.mark.parametrize(
    "wrong", [{"leads": 3}, {"seconds": 0.5}, {"rate": 10}, {"records": 0}, {"seed": -1}, {"recording": 2}]
)
def test_impossible_options_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SYNTHETIC.parse_options(wrong)


def test_options_may_be_text() -> None:
    assert SYNTHETIC.parse_options({"leads": "4", "records": "5"}) == SyntheticOptions(leads=4, records=5)


def test_a_foreign_file_is_refused() -> None:
    with pytest.raises(FormatError, match="not a synthetic record"):
        SYNTHETIC.load(NOWHERE, Entry("A0001.hea"), SyntheticOptions())


@settings(max_examples=60)
@given(
    number=st.integers(0, 10**8),
    seed=st.integers(0, 2**32),
    repeats=st.integers(1, 5),
    leads=st.sampled_from([1, 4, 12]),
    seconds=st.floats(1, 20),
    rate=st.sampled_from([100.0, 250.0, 257.0, 300.0, 500.0, 1000.0]),
)
def test_any_options_give_a_sound_recording(
    number: int, seed: int, repeats: int, leads: int, seconds: float, rate: float
) -> None:
    options = {"seed": seed, "recordings_per_patient": repeats, "leads": leads, "seconds": seconds, "rate": rate}
    recording = load(number, **options)
    assert recording.digital.shape == (leads, round(seconds * rate))
    assert np.abs(recording.digital.astype(int)).max() < 8000
    assert [finding for finding in assess(recording, GatePolicy()) if finding.reason != "short"] == []
    np.testing.assert_array_equal(load(number, **options).digital, recording.digital)
