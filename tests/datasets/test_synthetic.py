"""Synthetic ECGs are reproducible, physically consistent and agree with their labels."""

from __future__ import annotations

import functools
import itertools
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, find_peaks, sosfiltfilt

from clocs.core.errors import ConfigError, FormatError
from clocs.core.recording import Recording
from clocs.core.sources.folder_source import FolderSource
from clocs.datasets.dataset import DATASETS, Entry
from clocs.datasets.synthetic import MEANINGS, SYNTHETIC, SyntheticOptions, truth
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GatePolicy, assess
from clocs.signals.simulation import GroundTruth

NOWHERE = FolderSource.__new__(FolderSource)
"""A source that fails when it is used, because the dataset needs none."""
RHYTHMS = ("SR", "SB", "ST", "AFIB", "PVC")
QUIET = SyntheticOptions(num_records=6000, noise=0)
EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")


def load(number: int, **options: Any) -> Recording:
    return SYNTHETIC.load(NOWHERE, Entry(f"synthetic/{number:07d}"), SYNTHETIC.parse_options(options))


def entries(**options: Any) -> list[Entry]:
    return list(SYNTHETIC.entries(NOWHERE, SYNTHETIC.parse_options(options)))


@functools.cache
def listed() -> dict[tuple[str, ...], list[Entry]]:
    """Return entries by their labels."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in SYNTHETIC.entries(NOWHERE, QUIET):
        found.setdefault(entry.labels, []).append(entry)
    return found


def having(*labels: str, count: int = 12, options: SyntheticOptions = QUIET) -> list[tuple[Recording, GroundTruth]]:
    """Return recordings with exactly these labels, and their ground truth."""
    chosen = listed()[labels][:count]
    assert chosen
    return [(SYNTHETIC.load(NOWHERE, entry, options), truth(entry.record_id, options)) for entry in chosen]


def of_rhythm(rhythm: str, count: int) -> list[Recording]:
    return [made for made, _ in having(rhythm, count=count, options=SyntheticOptions())]


def lead(recording: Recording, name: str) -> npt.NDArray[np.float64]:
    return np.asarray(recording.signal[recording.leads.index(name)], np.float64)


def extreme(recording: Recording, known: GroundTruth, name: str) -> float:
    """Return the median over beats of a lead's largest deflection within QRS, in mV, with sign."""
    values = lead(recording, name)
    cuts = [
        values[at : at + round(qrs * recording.sampling_rate)]
        for at, qrs in zip(known.qrs_onsets, known.qrs, strict=True)
    ]
    return float(np.median([cut[np.abs(cut).argmax()] for cut in cuts[:-1]]))


def late_part(recording: Recording, known: GroundTruth, name: str) -> float:
    """Return the median over beats of a lead's mean in the last 40 ms of QRS, in mV."""
    values, width = lead(recording, name), round(0.04 * recording.sampling_rate)
    ends = known.qrs_onsets + np.rint(known.qrs * recording.sampling_rate).astype(int)
    return float(np.median([values[end - width : end].mean() for end in ends[:-1]]))


def at_j(recording: Recording, known: GroundTruth, name: str) -> float:
    """Return the median over beats of a lead 60 ms after QRS, in mV."""
    after = known.qrs_onsets + np.rint((known.qrs + 0.06) * recording.sampling_rate).astype(int)
    return float(np.median(lead(recording, name)[after[after < recording.num_samples]]))


def r_peaks(recording: Recording) -> npt.NDArray[np.intp]:
    """Detect beats from the signal alone, by steep stretches of all chest leads."""
    chest = recording.select(EIGHT).signal
    steep = np.square(sosfiltfilt(butter(2, (5, 25), "bandpass", fs=recording.sampling_rate, output="sos"), chest)).sum(
        axis=0
    )
    smooth = np.convolve(steep, np.ones(60) / 60, "same")
    inside = np.concatenate([np.zeros(100), smooth, np.zeros(100)])
    found, _ = find_peaks(inside, height=0.1 * np.quantile(smooth, 0.98), distance=int(0.28 * recording.sampling_rate))
    return np.asarray(found - 100)


def intervals(recording: Recording) -> npt.NDArray[np.float64]:
    """Return the seconds between complete beats."""
    beats = r_peaks(recording)
    beats = beats[(beats > 60) & (beats < recording.num_samples - 60)]
    return np.diff(beats) / recording.sampling_rate


def beat_average(recording: Recording) -> npt.NDArray[np.float64]:
    """Return the median QRS of all leads as one vector."""
    signal = recording.signal
    cuts = [signal[:, beat - 40 : beat + 40] for beat in r_peaks(recording) if 40 <= beat < recording.num_samples - 40]
    average = np.median(cuts, axis=0)
    return np.asarray(average - np.median(average, axis=1, keepdims=True), np.float64).ravel()


def test_it_is_registered_and_needs_no_source() -> None:
    assert DATASETS.get("synthetic") is SYNTHETIC
    assert not SYNTHETIC.needs_source
    assert set(SYNTHETIC.classes) == set(RHYTHMS)


def test_a_recording_follows_the_options() -> None:
    recording = load(3)
    assert recording.digital.shape == (12, 5000)
    assert recording.digital.dtype == np.int16
    assert recording.leads == STANDARD_LEADS
    assert recording.unit == "mV"
    assert set(recording.gain) == {1000.0}
    assert recording.provenance.format == "synthetic"


def test_a_recording_has_the_metadata_of_its_entry() -> None:
    for entry in entries(num_records=50):
        made = SYNTHETIC.load(NOWHERE, entry, SyntheticOptions(num_records=50))
        assert (made.record_id, made.patient_id, made.age, made.sex, made.labels) == (
            entry.record_id,
            entry.patient_id,
            entry.age,
            entry.sex,
            entry.labels,
        )


def test_recordings_do_not_depend_on_order_and_number() -> None:
    forward = {entry.file: load(int(entry.record_id), num_records=40).digital for entry in entries(num_records=40)}
    for entry in reversed(entries(num_records=4000)[:40]):
        again = load(int(entry.record_id), num_records=4000)
        np.testing.assert_array_equal(again.digital, forward[entry.file])


def test_more_records_keep_existing_entries() -> None:
    assert entries(num_records=3000)[:1500] == entries(num_records=1500)


def test_records_and_seeds_differ() -> None:
    signals = [load(0), load(1), load(0, seed=1), load(0, recordings_per_patient=1, seed=2)]
    for one, other in itertools.combinations(signals, 2):
        assert not np.array_equal(one.digital, other.digital)
        assert one.provenance.sha256 != other.provenance.sha256


def test_the_hash_of_a_recording_does_not_depend_on_the_number_of_records() -> None:
    assert load(7, num_records=10).provenance.sha256 == load(7, num_records=99).provenance.sha256
    assert load(7).provenance.sha256 != load(7, sampling_rate=250).provenance.sha256


def test_fewer_leads_are_the_same_leads() -> None:
    whole = load(5)
    for leads in (("II",), ("II", "V2"), ("II", "V2", "aVL", "aVR")):
        fewer = load(5, leads=len(leads))
        assert fewer.leads == leads
        np.testing.assert_array_equal(fewer.digital, whole.select(leads).digital)


def test_einthoven_and_goldberger_hold_to_rounding() -> None:
    for number in range(50):
        recording = load(number)
        row = dict(zip(recording.leads, recording.digital.astype(float), strict=True))
        assert np.abs(row["I"] + row["III"] - row["II"]).max() == 0
        assert np.abs(row["aVR"] + (row["I"] + row["II"]) / 2).max() <= 0.5
        assert np.abs(row["aVL"] - (row["I"] - row["II"] / 2)).max() <= 0.5
        assert np.abs(row["aVF"] - (row["II"] - row["I"] / 2)).max() <= 0.5


def test_the_default_gate_passes_everything() -> None:
    for entry in entries(num_records=400):
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


def test_noise_changes_no_beat() -> None:
    noisy, quiet = load(3), load(3, noise=0)
    assert np.corrcoef(noisy.digital[1], quiet.digital[1])[0, 1] > 0.9
    np.testing.assert_array_equal(truth("0000003", SyntheticOptions()).qrs_onsets, truth("0000003", QUIET).qrs_onsets)
    assert noisy.provenance.sha256 != quiet.provenance.sha256


def test_intervals_of_the_clean_signal_are_the_true_ones() -> None:
    """P, QRS and T are the stretches where any lead leaves zero; plain sinus bradycardia keeps them apart."""
    measured = 0
    for recording, known in having("SB", count=40):
        moves = (np.abs(recording.select(EIGHT).digital) >= 2).any(axis=0)
        edges = np.flatnonzero(np.diff(moves.astype(int), prepend=0))
        starts, ends = edges[::2], edges[1::2]
        for at, pr, qrs, qt in zip(known.qrs_onsets[1:-1], known.pr[1:-1], known.qrs[1:], known.qt[1:], strict=False):
            wave = int(np.abs(starts - at).argmin())
            found = np.array(
                [starts[wave] - starts[wave - 1], ends[wave] - starts[wave], ends[wave + 1] - starts[wave]]
            )
            off = found / recording.sampling_rate - (pr, qrs, qt)
            assert (np.abs(off) <= (0.004, 0.004, 0.008)).all(), (recording.record_id, off)
            off_p = (ends[wave - 1] - starts[wave - 1]) / recording.sampling_rate - known.p_duration
            assert abs(off_p) <= 0.008
            measured += 1
    assert measured > 200


@pytest.mark.parametrize("rhythm", RHYTHMS)
def test_beats_are_at_the_true_positions(rhythm: str) -> None:
    for recording, known in having(rhythm, count=15):
        true = known.qrs_onsets[(known.qrs_onsets > 60) & (known.qrs_onsets < recording.num_samples - 120)]
        found = r_peaks(recording)
        assert all(np.abs(found - at - 22).min() < 50 for at in true), recording.record_id


def test_axes_are_those_of_the_areas_in_i_and_avf() -> None:
    for recording, known in having("SB"):
        at, end = known.qrs_onsets[1], known.qrs_onsets[1] + round(known.qrs[1] * recording.sampling_rate)
        one, foot = (float(lead(recording, name)[at:end].sum()) for name in ("I", "aVF"))
        off = np.degrees(np.arctan2(foot * 2 / np.sqrt(3), one)) - known.qrs_axis
        assert abs((off + 180) % 360 - 180) < 5
        assert -60 < known.qrs_axis < 120
        assert -10 < known.p_axis < 100


def test_ventricular_ectopic_beats_are_early_wide_and_followed_by_a_pause() -> None:
    for recording, known in having("PVC", count=40):
        beats, wide = known.qrs_onsets, np.array(known.kinds) == "ventricular"
        assert wide.any(), recording.record_id
        assert (known.qrs[wide] > 0.12).all()
        assert (known.qrs[~wide] < 0.12).all()
        assert np.isnan(known.pr[wide]).all()
        gaps, usual = np.diff(beats), np.median(np.diff(beats))
        for place in np.flatnonzero(wide[1:-1]) + 1:
            assert gaps[place - 1] < 0.8 * usual
            assert gaps[place] > 1.2 * usual


def test_atrial_ectopic_beats_are_early_and_narrow() -> None:
    for _, known in having("SR", "PAC"):
        assert known.atrial_ectopic.any()
        assert (known.qrs < 0.12).all()
        gaps = np.diff(known.p_onsets)
        usual = np.median(gaps)
        early = np.flatnonzero(known.atrial_ectopic[1:])
        assert (gaps[early] < 0.8 * usual).all()
        after = gaps[early[early + 1 < len(gaps)] + 1]
        assert (after < 1.4 * usual).all(), "the sinus node is reset: no full compensatory pause"


def test_av_block_has_its_conduction_ratios() -> None:
    for _, known in having("SR", "1AVB"):
        assert (known.pr > 0.2).all()
    for _, known in having("SR", "2AVB"):
        assert 0.4 < len(known.qrs_onsets) / len(known.p_onsets) < 0.9
        conducted = [np.abs(known.p_onsets - (at - pr * 500)).min() <= 1 for at, pr in beats_of(known)]
        assert all(conducted)
    for _, known in having("SR", "3AVB"):
        assert np.isnan(known.pr).all()
        assert set(known.kinds) == {"escape"}
        assert np.std(np.diff(known.qrs_onsets)) < 0.02 * np.mean(np.diff(known.qrs_onsets))
        assert np.mean(np.diff(known.qrs_onsets)) > 1.25 * 500 > 1.1 * np.mean(np.diff(known.p_onsets))
        distances = [(known.p_onsets - at)[known.p_onsets < at].max(initial=-1000) for at in known.qrs_onsets[2:]]
        assert np.ptp(distances) > 25, "P waves wander through"


def beats_of(known: GroundTruth) -> list[tuple[int, float]]:
    """QRS onsets and PR of beats whose P wave lies inside, too."""
    return [(at, pr) for at, pr in zip(known.qrs_onsets.tolist(), known.pr.tolist(), strict=True) if at > pr * 500 + 2]


def test_wenckebach_lengthens_pr_until_a_beat_is_dropped() -> None:
    spans = [np.ptp(known.pr) for _, known in having("SR", "2AVB", count=30)]
    assert min(spans) < 0.001 < 0.05 < max(spans), "Mobitz II and I"


def test_bundle_branch_blocks_are_wide_with_their_polarity_in_v1() -> None:
    for recording, known in having("SR", "LBBB"):
        assert (known.qrs > 0.12).all()
        assert late_part(recording, known, "V1") < -0.1
        assert extreme(recording, known, "V1") < -0.5
        assert extreme(recording, known, "V6") > 0.3
        assert known.st["V1"] > 0 > known.st["V6"], "against QRS"
    for recording, known in having("SR", "RBBB"):
        assert (known.qrs > 0.12).all()
        assert late_part(recording, known, "V1") > 0.1
        assert late_part(recording, known, "I") < -0.02
        assert late_part(recording, known, "V6") < -0.05
    for recording, known in having("SR"):
        assert (known.qrs < 0.12).all()
        assert extreme(recording, known, "V1") < 0


def test_hypertrophy_has_high_voltages() -> None:
    def voltage(*labels: str) -> float:
        """S in V1 and R in V5 (Sokolow and Lyon), mean of some patients."""
        values = [lead(recording, "V5").max() - lead(recording, "V1").min() for recording, _ in having(*labels)]
        return float(np.mean(values))

    assert voltage("SR", "LVH") > 3.5 > voltage("SR")
    for recording, known in having("SR", "RVH"):
        assert extreme(recording, known, "V1") > 0.3
        assert 80 < known.qrs_axis < 200


ST_SIGNS = {
    "STE-ANT": (("V2", "V3", "V4"), ()),
    "STE-INF": (("II", "III", "aVF"), ("I", "aVL")),
    "STE-LAT": (("I", "aVL", "V5", "V6"), ("III",)),
    "STD-ANT": ((), ("V2", "V3")),
    "STD-INF": ((), ("II", "III", "aVF")),
    "STD-LAT": ((), ("I", "V5", "V6")),
}


@pytest.mark.parametrize("finding", ST_SIGNS)
def test_st_changes_are_in_their_territory(finding: str) -> None:
    up, down = ST_SIGNS[finding]
    for recording, known in having("SB", finding, count=6) + having("SR", finding, count=6):
        for name in up:
            assert at_j(recording, known, name) > 0.05, (recording.record_id, name)
        for name in down:
            assert at_j(recording, known, name) < -0.03, (recording.record_id, name)
        for name in STANDARD_LEADS:
            assert at_j(recording, known, name) == pytest.approx(known.st[name], rel=0.15, abs=0.04)


def test_pacing_has_spikes_before_wide_beats() -> None:
    for recording, known in having("SR", "PACE") + having("AFIB", "PACE", count=4):
        jumps = np.abs(np.diff(lead(recording, "II")))
        spikes = known.qrs_onsets[known.qrs_onsets > 4] - 1
        assert set(known.kinds) == {"paced"}
        assert (known.qrs > 0.12).all()
        assert (jumps[spikes - 1] > 0.2).all()
        others = np.delete(jumps, np.concatenate([spikes - 1, spikes]))
        assert others[known.qrs_onsets[0] + 2 :].max() < jumps[spikes - 1].min()


def test_escape_and_pacing_make_fibrillation_regular() -> None:
    for _, known in having("AFIB", "PACE", count=4) + having("AFIB", "3AVB", count=4):
        gaps = np.diff(known.qrs_onsets)
        assert np.std(gaps) < 0.02 * np.mean(gaps)
        assert not len(known.p_onsets)
        assert np.isnan(known.p_axis)


def test_recordings_of_a_patient_resemble_each_other_more() -> None:
    sinus = [entry for entry in entries(num_records=1500) if entry.labels in (("SR",), ("SB",), ("ST",))]
    pairs = [pair for pair in itertools.pairwise(sinus) if pair[0].patient_id == pair[1].patient_id][:25]
    first, second = (np.array([beat_average(load(int(pair[place].record_id))) for pair in pairs]) for place in (0, 1))
    alike = np.corrcoef(first, second)[: len(pairs), len(pairs) :]
    own, others = np.diag(alike), alike[~np.eye(len(pairs), dtype=bool)]
    assert own.min() > 0.9
    assert own.mean() > others.mean() + 0.05
    assert np.mean(alike.argmax(axis=1) == np.arange(len(pairs))) > 0.8


def test_patients_own_their_recordings_age_and_sex() -> None:
    made = entries(num_records=90, recordings_per_patient=3)
    by_patient = {patient: list(group) for patient, group in itertools.groupby(made, lambda entry: entry.patient_id)}
    assert len(by_patient) == 30
    assert all(len(group) == 3 and len({(e.age, e.sex) for e in group}) == 1 for group in by_patient.values())
    assert len({entry.age for entry in made}) > 10


def test_every_rhythm_has_its_fraction() -> None:
    labels = [entry.labels[0] for entry in entries(num_records=5000)]
    for rhythm in RHYTHMS:
        assert 0.17 < labels.count(rhythm) / len(labels) < 0.23


def test_findings_have_their_fraction_and_are_compatible() -> None:
    labels = [entry.labels for entry in entries(num_records=5000)]
    for finding in set(MEANINGS) - set(RHYTHMS):
        assert 0.02 < np.mean([finding in of for of in labels]) < 0.09, finding
    assert all(of[0] in RHYTHMS and not set(of[1:]) & set(RHYTHMS) and len(of) <= 3 for of in labels)
    assert not any({"AFIB", "1AVB"} <= set(of) or {"PACE", "2AVB"} <= set(of) for of in labels)
    assert any(len(of) == 3 for of in labels)


def test_persistent_findings_are_in_every_recording_of_a_patient() -> None:
    made = entries(num_records=3000, recordings_per_patient=3)
    by_patient = [made[start : start + 3] for start in range(0, 3000, 3)]
    for finding in ("LBBB", "RBBB", "LVH", "RVH"):
        shown = [sum(finding in entry.labels for entry in group) for group in by_patient]
        assert set(shown) == {0, 3}, finding
    assert {sum("STE-INF" in entry.labels for entry in group) for group in by_patient} == {0, 1, 2, 3}


def test_tasks_define_the_classes() -> None:
    rhythm, findings = (SYNTHETIC.metadata(SyntheticOptions(task=task))["classes"] for task in ("rhythm", "findings"))
    assert list(rhythm) == list(RHYTHMS)
    assert set(findings) == set(MEANINGS)
    assert load(5, task="findings").provenance.sha256 == load(5).provenance.sha256


def test_listing_needs_no_memory() -> None:
    tracemalloc.start()
    try:
        listed = sum(1 for _ in SYNTHETIC.entries(NOWHERE, SyntheticOptions(num_records=20_000, seed=9)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert listed == 20_000
    assert peak < 2_000_000


def test_truth_of_an_unknown_record_raises_an_error() -> None:
    with pytest.raises(FormatError, match="not a synthetic record"):
        truth("A0001", SyntheticOptions())


@pytest.mark.parametrize(
    "wrong", [{"leads": 3}, {"seconds": 0.5}, {"sampling_rate": 10}, {"num_records": 0}, {"seed": -1}, {"recording": 2}]
)
def test_invalid_options_raise_errors(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SYNTHETIC.parse_options(wrong)


def test_options_may_be_text() -> None:
    assert SYNTHETIC.parse_options({"leads": "4", "num_records": "5"}) == SyntheticOptions(leads=4, num_records=5)


def test_an_unknown_file_raises_an_error() -> None:
    with pytest.raises(FormatError, match="not a synthetic record"):
        SYNTHETIC.load(NOWHERE, Entry("A0001.hea"), SyntheticOptions())


@settings(max_examples=60)
@given(
    number=st.integers(0, 10**8),
    seed=st.integers(0, 2**32),
    repeats=st.integers(1, 5),
    leads=st.sampled_from([1, 2, 4, 12]),
    seconds=st.floats(1, 20),
    sampling_rate=st.sampled_from([100.0, 250.0, 257.0, 300.0, 500.0, 1000.0]),
)
def test_any_options_give_a_valid_recording(
    number: int, seed: int, repeats: int, leads: int, seconds: float, sampling_rate: float
) -> None:
    options = {
        "seed": seed,
        "recordings_per_patient": repeats,
        "leads": leads,
        "seconds": seconds,
        "sampling_rate": sampling_rate,
    }
    recording = load(number, **options)
    assert recording.digital.shape == (leads, round(seconds * sampling_rate))
    assert np.abs(recording.digital.astype(int)).max() < 8000
    assert [finding for finding in assess(recording, GatePolicy()) if finding.reason != "short"] == []
    np.testing.assert_array_equal(load(number, **options).digital, recording.digital)
