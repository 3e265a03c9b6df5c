"""Frames equal those of a literal version that slices complete recordings in a loop."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.signal import resample, resample_poly

from clocs.core.errors import ConfigError
from clocs.core.recording import Episode, Recording
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.store.conftest import Maker

Frame = npt.NDArray[np.float32]
LEADS = ("II", "V2", "aVL")
POLICIES = {
    "cut": FramePolicy(num_samples=2500, num_source_samples=2500, leads=LEADS),
    "two segments": FramePolicy(num_samples=1250, num_segments=2, sampling_rate=500, leads=LEADS),
    "scaled": FramePolicy(num_samples=1000, num_source_samples=1000, normalization="minmax", leads=LEADS),
    "stretched": FramePolicy(num_samples=500, num_source_samples=256, leads=LEADS),
    "overlapping": FramePolicy(num_samples=1250, num_segments=2, sampling_rate=500, leads=LEADS, overlap=0.5),
    "overlapping, stretched": FramePolicy(num_samples=500, num_source_samples=256, leads=LEADS, overlap=0.7),
    "whole": FramePolicy(num_samples=400, num_source_samples="recording", leads=LEADS),
    "all leads": FramePolicy(num_samples=2500, num_source_samples=2500),
    "excluded_leads": FramePolicy(
        num_samples=2500, num_source_samples=2500, leads=LEADS, excluded_leads=(("r1", "V2"),)
    ),
}


def literal(recording: Recording, policy: FramePolicy) -> list[tuple[int, str, Frame]]:
    """Return frame index, lead and samples of every instance, computed one by one in plain Python."""
    found = []
    for lead in policy.leads or recording.leads:
        if lead not in recording.leads or (recording.record_id, lead) in policy.excluded_leads:
            continue
        values = recording.physical()[recording.leads.index(lead)].astype(np.float64)
        native = len(values)
        if policy.sampling_rate is not None and policy.sampling_rate != recording.sampling_rate:
            window = round(policy.num_samples * policy.num_segments * recording.sampling_rate / policy.sampling_rate)
        elif policy.sampling_rate is not None:
            window = policy.num_samples * policy.num_segments
        else:
            window = native if policy.num_source_samples == "recording" else int(policy.num_source_samples or 0)
        hop = round(window * (1 - policy.overlap))
        starts = [begin for begin in range(0, native, hop) if begin + window <= native]
        for frame, begin in enumerate(starts):
            cut = values[begin : begin + window]
            if np.isnan(cut).any():
                continue
            if policy.sampling_rate is not None and policy.sampling_rate != recording.sampling_rate:
                up = int(policy.sampling_rate // recording.sampling_rate)
                whole = resample_poly(values, up, 1, padtype="edge")
                length = policy.num_samples * policy.num_segments
                start = frame * round(length * (1 - policy.overlap))
                cut = whole[start : start + length]
            elif len(cut) != policy.num_samples * policy.num_segments:
                cut = resample(cut, policy.num_samples * policy.num_segments)
            segments = cut.reshape(policy.num_segments, policy.num_samples)
            if policy.normalization == "minmax":
                segments = np.stack([(one - one.min()) / (one.max() - one.min()) for one in segments])
            found.append((frame, lead, segments.astype(np.float32)))
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_frames_equal_a_literal_loop(store_of: Maker, varied: list[Recording], name: str) -> None:
    policy = POLICIES[name]
    recordings = [item for item in varied if policy.sampling_rate is None or item.record_id != "gap"]
    store = store_of(recordings, gate=GATE_OFF, per_shard=3)
    frames = Frames(store, policy)
    records, numbers, leads = frames.locate(np.arange(len(frames)))
    values = frames.gather(np.arange(len(frames)))
    ours = {(int(r), int(n), str(lead)): row for r, n, lead, row in zip(records, numbers, leads, values, strict=True)}
    expected = {
        (record, frame, lead): row
        for record in range(len(store))
        for frame, lead, row in literal(store.recording(record), policy)
    }
    assert ours.keys() == expected.keys()
    assert frames.num_frames == len({key[:2] for key in expected})
    for key, row in expected.items():
        np.testing.assert_allclose(ours[key], row, atol=2e-4, err_msg=str(key))
    per_record = frames.frames_per_record()
    assert per_record.tolist() == [len({k[1] for k in expected if k[0] == r}) for r in range(len(store))]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000))
def test_the_order_of_a_batch_does_not_matter(store_of: Maker, varied: list[Recording], seed: int) -> None:
    store = store_of(varied, gate=GATE_OFF, per_shard=3)
    frames = Frames(store, POLICIES["cut"])
    items = np.random.default_rng(seed).integers(0, len(frames), 20)
    batch = frames.gather(items)
    for place, item in enumerate(items):
        np.testing.assert_array_equal(batch[place], frames.gather([item])[0])


def test_a_mask_selects_recordings(store_of: Maker) -> None:
    """Uniform shards are indexed by arithmetic, with and without a mask."""
    store = store_of([make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n}") for n in range(10)])
    mask = np.array([n % 3 == 1 for n in range(10)])
    frames = Frames(store, POLICIES["cut"], records=mask)
    records, numbers, leads = frames.locate(np.arange(len(frames)))
    assert set(records) == {1, 4, 7}
    for item in range(len(frames)):
        recording = store.recording(int(records[item])).select((str(leads[item]),))
        window = recording.signal[0, numbers[item] * 2500 : (numbers[item] + 1) * 2500]
        np.testing.assert_allclose(frames.gather([item])[0, 0], window, atol=1e-6)


def test_all_leads_are_stacked(store_of: Maker, varied: list[Recording]) -> None:
    store = store_of(varied, gate=GATE_OFF, per_shard=3)
    policy = POLICIES["cut"]
    whole = Frames(store, policy, all_leads=True)
    single = Frames(store, policy)
    records, numbers, leads = single.locate(np.arange(len(single)))
    by_place = {(r, n, lead): i for i, (r, n, lead) in enumerate(zip(records, numbers, leads, strict=True))}
    at_records, at_numbers, _ = whole.locate(np.arange(len(whole)))
    assert len(whole) == sum(all((r, n, lead) in by_place for lead in LEADS) for r, n in {k[:2] for k in by_place})
    for item, (record, number) in enumerate(zip(at_records, at_numbers, strict=True)):
        parts = single.gather([by_place[record, number, lead] for lead in LEADS])
        np.testing.assert_array_equal(whole.gather([item])[0], parts)


def test_all_leads_are_the_most_common_leads_in_one_order(store_of: Maker) -> None:
    """The order of a file does not matter. Recordings that lack a lead are left out."""
    layouts = [("V1", "II"), ("I", "II", "V1"), ("V1", "II", "I"), ("II", "I", "V1", "V2"), ("II", "V1", "I")]
    made = [make_recording(leads, seed=n, record_id=f"r{n}", patient_id=f"p{n}") for n, leads in enumerate(layouts)]
    store = store_of(made, gate=GATE_OFF, per_shard=2)
    frames = Frames(store, FramePolicy(num_samples=2500, num_source_samples=2500), all_leads=True)
    assert frames.leads == ("I", "II", "V1", "III", "aVR", "aVL", "aVF")
    records, numbers, _ = frames.locate(np.arange(len(frames)))
    assert set(records) == {1, 2, 3, 4}
    for item, (record, number) in enumerate(zip(records, numbers, strict=True)):
        recording = store.recording(int(record)).select(frames.leads)
        window = recording.physical()[:, number * 2500 : (number + 1) * 2500]
        np.testing.assert_allclose(frames.gather([item])[0, :, 0], window, atol=1e-6)
    few = Frames(
        store, FramePolicy(num_samples=2500, num_source_samples=2500), all_leads=True, records=np.arange(5) == 0
    )
    assert (few.leads, len(few)) == (("V1", "II"), 2)


def test_gaps_outside_of_a_resampled_frame_do_not_matter(store_of: Maker) -> None:
    """From 250 to 500 Hz the filter reaches ten samples. Frames within its reach of a gap are left out."""
    clean = make_recording(("II",), num_samples=5000, sampling_rate=250.0)
    signal = clean.digital.copy()
    for place in (1255, 3900):  # just after the first of four frames, and within the fourth
        signal[0, place] = np.iinfo(signal.dtype).min
    store = store_of([clean], gate=GATE_OFF), store_of([replace(clean, digital=signal)], name="gaps", gate=GATE_OFF)
    policy = FramePolicy(num_samples=2500, sampling_rate=500, leads=("II",))
    whole, gaps = (Frames(each, policy) for each in store)
    _, numbers, _ = gaps.locate(np.arange(len(gaps)))
    assert (len(whole), numbers.tolist()) == (4, [2])
    np.testing.assert_array_equal(gaps.gather([0]), whole.gather([2]))


@pytest.mark.parametrize("sampling_rate", [100.0, 257.0, 300.0, 333.3, 1000.0])
def test_a_resampled_frame_equals_that_of_the_complete_recording(store_of: Maker, sampling_rate: float) -> None:
    recording = make_recording(("II",), num_samples=int(30.7 * sampling_rate), sampling_rate=sampling_rate)
    frames = Frames(
        store_of([recording], gate=GATE_OFF), FramePolicy(num_samples=2500, sampling_rate=500, leads=("II",))
    )
    ratio = 500 / Fraction(str(sampling_rate))
    whole = resample_poly(recording.physical()[0], ratio.numerator, ratio.denominator, padtype="edge")
    assert len(frames) == 6
    for number in range(len(frames)):
        expected = whole[number * 2500 : (number + 1) * 2500]
        np.testing.assert_allclose(frames.gather([number])[0, 0], expected, atol=1e-6)


def test_a_frame_of_a_long_recording_reads_only_its_window(store_of: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a day of ECG would be resampled for every frame, which takes hours."""
    lengths = []

    def resample(signal: Frame, sampling_rate: float, target_rate: float) -> Frame:
        lengths.append(signal.shape[-1])
        return np.repeat(signal, 2, axis=-1)

    monkeypatch.setattr("clocs.store.frames.resample", resample)
    store = store_of([make_recording(("II",), num_samples=250 * 600, sampling_rate=250.0)], gate=GATE_OFF)
    Frames(store, FramePolicy(num_samples=2500, sampling_rate=500)).gather(np.arange(120))
    assert len(lengths) == 3, "first, last and all other frames"
    assert max(lengths) < 1250 + 50


def test_long_lead_names_are_kept(store_of: Maker) -> None:
    leads = ("Bipolar chest lead A", "Bipolar chest lead B")
    frames = Frames(
        store_of([make_recording(leads)], gate=GATE_OFF), FramePolicy(num_samples=5000, num_source_samples=5000)
    )
    assert frames.locate([0, 1])[2].tolist() == list(leads) == list(frames.leads)


def test_labels_at_the_first_sample_of_a_frame(store_of: Maker) -> None:
    episodes = (Episode(0, 2500, "A"), Episode(2500, 2501, "B"), Episode(2501, 5000, "A"), Episode(5000, 7500, "C"))
    recording = replace(make_recording(num_samples=7500), episodes=episodes)
    policy = FramePolicy(num_samples=2500, num_source_samples=2500, leads=("II",), label_at="start")
    classes = {"a": ("A",), "b": ("B",)}
    store = store_of([recording], classes=classes, frame_policies={"evaluation": policy})
    frames = store.frames("evaluation")
    assert len(frames) == 2, "the frame labelled C has no class"
    assert frames.targets([0, 1]).tolist() == [[True, False], [False, True]]


def test_targets_by_recording(store_of: Maker) -> None:
    store = store_of(
        [
            make_recording(seed=n, record_id=f"r{n}", labels=labels)
            for n, labels in enumerate([("A",), ("B", "A2"), ()])
        ],
        classes={"a": ("A", "A2"), "b": ("B",)},
    )
    frames = Frames(store, FramePolicy(num_samples=5000, num_source_samples=5000, leads=("II",)))
    assert frames.targets([0, 1, 2]).tolist() == [[True, False], [True, True], [False, False]]


def test_masks_and_indices_are_not_confused(store_of: Maker) -> None:
    store = store_of([make_recording(seed=seed, record_id=f"r{seed}") for seed in range(3)])
    frames = Frames(store, POLICIES["cut"])
    mask = np.zeros(len(frames), bool)
    mask[2] = True
    for items in (mask, [1.5]):
        with pytest.raises(ConfigError, match="as integers"):
            frames.gather(items)
    np.testing.assert_array_equal(frames.gather(np.flatnonzero(mask)), frames.gather([2]))
    assert len(frames.gather([])) == 0
    with pytest.raises(ConfigError, match="as a boolean mask"):
        Frames(store, POLICIES["cut"], records=np.arange(3))  # type: ignore[arg-type]


def test_items_out_of_range_raise_an_error(store_of: Maker) -> None:
    frames = Frames(store_of([make_recording()]), POLICIES["cut"])
    with pytest.raises(IndexError, match="not all in"):
        frames.gather([len(frames)])
    with pytest.raises(IndexError, match="not all in"):
        frames.gather([-1])


def test_real_frames_equal_their_recordings(originals: Path, tmp_path: Path) -> None:
    """PTB-XL has 100 and 500 Hz. Frames at 500 Hz agree with scipy on the complete recording."""
    from clocs.store.ingest import ingest

    store: Store = ingest("ptbxl", originals / "ptbxl", tmp_path / "ptbxl")
    frames = store.frames("evaluation")
    for item in np.random.default_rng(0).integers(0, len(frames), 12):
        (record,), (number,), (lead,) = frames.locate([item])
        recording = store.recording(int(record))
        signal = recording.signal[recording.leads.index(str(lead))]
        whole = signal if recording.sampling_rate == 500 else resample_poly(signal, 5, 1, padtype="edge")
        window = whole[number * 2500 : (number + 1) * 2500]
        np.testing.assert_allclose(frames.gather([item])[0, 0], window, atol=1e-4)
