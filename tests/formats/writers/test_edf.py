"""EDF+ and BDF+ files of clocs, read by ``pyedflib``."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyedflib
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clocs.core.errors import MissingExtraError, SignalError, StoreError
from clocs.core.recording import Episode, Recording, missing_value
from clocs.formats import read
from clocs.formats.writers.digital_values import ROUNDED
from clocs.formats.writers.edf_layout import (
    RECOMMENDED_RECORD_BYTES,
    RECORD_SECONDS_RANGE,
    TICKS_PER_SECOND,
    find_limits,
    plan_records,
)
from clocs.formats.writing import FILLED_NOTE, WriteOptions, write
from tests.conftest import make_recording
from tests.formats.writers.recordings import ORIGINALS, chapman, millivolts, originals, recordings, write_quickly

SCALE = "the gain is rounded to the eight characters of its header field"
RATE = "the sampling rate is rounded, because the header counts time in 10 us"
SPARE = "the last data record is padded with 0; an annotation marks the end of the recording"
AGE = "the age is not written, because the header has no field for it"
MOST_MILLIVOLTS = 5e9
"""Half of the 9,999,999 V that fit in eight characters of the header."""
PER_MILLIVOLT = {"uV": 1000.0, "mV": 1.0, "V": 1e-3, "nV": 1e6}


def check(recording: Recording, path: Path) -> tuple[str, ...]:
    """Assert that pyedflib reads the same integers, gain, sampling rate, names and length, except as noted."""
    notes = write_quickly(recording, path)
    expected, num_samples = millivolts(recording), recording.num_samples
    with contextlib.closing(pyedflib.EdfReader(str(path))) as file:
        assert file.getSignalLabels() == [
            "ECG" if lead == "ECG" else f"ECG {lead}"[:16].strip() for lead in recording.leads
        ]
        for row in range(len(recording.leads)):
            stored = file.readSignal(row, digital=True)
            if ROUNDED not in notes and _fits(recording, row, path):
                np.testing.assert_array_equal(stored[:num_samples], recording.digital[row])
            unit = PER_MILLIVOLT[file.getPhysicalDimension(row)]
            found = file.readSignal(row) / unit
            span = abs(file.getPhysicalMaximum(row) - file.getPhysicalMinimum(row)) / unit
            step = span / (file.getDigitalMaximum(row) - file.getDigitalMinimum(row))
            tolerance = (0.5 if ROUNDED in notes else 0) * step + (2e-5 if SCALE in notes else 1e-12) * span
            assert np.abs(found[:num_samples] - expected[row]).max() <= tolerance + 1e-12 * np.abs(expected[row]).max()
            assert (len(found) > num_samples) == (SPARE in notes)
        assert file.getSampleFrequency(0) == pytest.approx(
            recording.sampling_rate, rel=6e-6 if RATE in notes else 1e-14
        )
        assert file.getSex() == {"male": "Male", "female": "Female", None: ""}[recording.sex]
        texts = file.readAnnotations()[2].tolist()
    labels = [*recording.labels, *(episode.label for episode in recording.episodes)]
    assert sorted(texts) == sorted([*labels, *(["Recording ends"] if SPARE in notes else [])])
    return notes


def _fits(recording: Recording, row: int, path: Path) -> bool:
    limit = 2**15 if path.suffix == ".edf" else 2**23
    return bool(np.abs(recording.digital[row].astype(np.int64)).max() < limit)


@pytest.mark.parametrize("ending", ["edf", "bdf"])
@settings(max_examples=25)
@given(recording=recordings(missing=False))
def test_round_trip_of_any_recording(
    ending: str, recording: Recording, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("edf") / f"r.{ending}"
    if np.abs(millivolts(recording)).max() > MOST_MILLIVOLTS:
        with contextlib.suppress(SignalError):
            check(recording, path)
        return
    notes = check(recording, path)
    if recording.digital.dtype == np.int16:
        assert ROUNDED not in notes


@pytest.mark.parametrize("num_samples", [4999, 4998, 2311, 577, 29 * 31, 30_000])
def test_duration_of_data_records_is_exact(num_samples: int, tmp_path: Path) -> None:
    """The library rounds durations down, and allows at most 60 s."""
    assert check(make_recording(("II",), num_samples), tmp_path / "r.edf") == ()


def check_exact(recording: Recording, path: Path) -> None:
    """Assert that pyedflib and clocs restore integers, gains and sampling rate of a real recording exactly."""
    gone = recording.digital == missing_value(recording.digital.dtype)
    if gone.any():
        with pytest.raises(SignalError, match=f"{gone.sum()} samples are missing"):
            write_quickly(recording, path)
        recording = dataclasses.replace(recording, digital=np.where(gone, np.int16(0), recording.digital))
    assert set(check(recording, path)) <= {AGE}
    ours = read(path, derive_leads=False)
    np.testing.assert_array_equal(ours.digital, recording.digital)
    np.testing.assert_allclose(ours.gain, recording.gain, rtol=1e-12)
    np.testing.assert_array_equal(ours.baseline, recording.baseline)
    assert (ours.leads, ours.sampling_rate, ours.num_samples) == (
        recording.leads,
        recording.sampling_rate,
        recording.num_samples,
    )


def test_round_trip_of_real_recordings(real_data: Path, tmp_path: Path) -> None:
    for recording in (
        *chapman(real_data / "chapman.zip", 5),
        *list(originals(real_data / "originals.zip", "ludb"))[:5],
    ):
        check_exact(recording, tmp_path / "r.edf")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["edf", "bdf"])
@pytest.mark.parametrize("publisher", ORIGINALS)
def test_round_trip_of_all_originals(real_data: Path, publisher: str, ending: str, tmp_path: Path) -> None:
    found = list(originals(real_data / "originals.zip", publisher))
    assert len(found) == ORIGINALS[publisher]
    for recording in found:
        check_exact(recording, tmp_path / f"r.{ending}")


@pytest.mark.slow
def test_round_trip_of_a_hundred_chapman_recordings(real_data: Path, tmp_path: Path) -> None:
    found = list(chapman(real_data / "chapman.zip", 100))
    assert len(found) == 100
    for recording in found:
        check_exact(recording, tmp_path / "r.edf")


@settings(max_examples=150)
@given(
    num_samples=st.integers(1, 200_000),
    sampling_rate=st.one_of(st.sampled_from([100.0, 250.0, 257.0, 300.0, 1000 / 3, 500.0]), st.floats(1.0, 1e6)),
    frame=st.integers(2, 1533),
)
@example(num_samples=5003, sampling_rate=500.0, frame=24)  # a prime number
@example(num_samples=1, sampling_rate=1e6, frame=1533)
@example(num_samples=1_800_017, sampling_rate=511.987, frame=3)
def test_data_records_contain_all_samples_with_little_padding(
    num_samples: int, sampling_rate: float, frame: int
) -> None:
    records = plan_records(num_samples, sampling_rate, frame)
    seconds = records.ticks / TICKS_PER_SECOND
    assert RECORD_SECONDS_RANGE[0] <= seconds <= RECORD_SECONDS_RANGE[1]
    held = records.num_samples * records.count
    assert num_samples <= held < num_samples + records.num_samples
    found = records.num_samples / seconds
    assert found == pytest.approx(sampling_rate, rel=1e-14 if records.has_exact_rate else 0.51 / records.ticks)
    if records.has_exact_rate and held > num_samples:
        assert (held - num_samples) / sampling_rate < 2.001
    if num_samples * frame < 8 << 20 and 1 <= num_samples / sampling_rate <= 60 and sampling_rate == 500:
        assert held == num_samples


def test_padding_for_an_exact_sampling_rate() -> None:
    """At 300 Hz, only every third sample is at a multiple of 10 us."""
    records = plan_records(8999, 300.0, 2)
    assert (records.num_samples * records.count, records.has_exact_rate) == (9000, True)


@pytest.mark.parametrize(
    ("num_samples", "sampling_rate", "expected"),
    [
        (5000, 500.0, 2500),
        (7500, 500.0, 2500),
        (5003, 500.0, 5003),
        (1000, 100.0, 1000),
        (514, 128.5, 514),
        (13, 500.0, 13),
    ],
)
def test_data_records_have_the_recommended_size(num_samples: int, sampling_rate: float, expected: int) -> None:
    records = plan_records(num_samples, sampling_rate, 24)
    assert (records.num_samples, records.num_samples * records.count, records.has_exact_rate) == (
        expected,
        num_samples,
        True,
    )
    assert records.num_samples * 24 <= RECOMMENDED_RECORD_BYTES or num_samples == 5003


@settings(max_examples=100)
@given(
    gain=st.one_of(st.sampled_from([1000.0, 200.0, 1000 / 4.88, 409.6, 1206.0, -300.0]), st.floats(0.01, 1e6)),
    baseline=st.integers(-40_000, 40_000),
    ends=st.tuples(st.integers(-32_767, 32_767), st.integers(-32_767, 32_767)).map(sorted),
)
def test_limits_represent_gain_and_baseline(gain: float, baseline: int, ends: list[int]) -> None:
    """EDF defines the gain by the line through both limits."""
    low, high = ends
    limits = find_limits(gain, baseline, low, high, 16)
    assert -(2**15) <= limits.lowest <= low <= high <= limits.highest < 2**15
    assert max(len(limits.low), len(limits.high)) <= 8
    bottom, top = (float(text) / PER_MILLIVOLT[limits.unit] for text in (limits.low, limits.high))
    digital_values = (limits.highest - limits.lowest) / (top - bottom)
    assert digital_values == pytest.approx(gain, rel=1e-12 if limits.is_exact else 2e-5)
    zero = limits.lowest - bottom * digital_values
    assert zero == pytest.approx(baseline, abs=1e-6 if limits.is_exact else 2e-5 * 2**16)


@pytest.mark.parametrize("gain", [1000.0, 200.0, 1000 / 4.88, 1000 / 2.5, 1000 / 1.25, 409.6, 1206.0, 698.0, 12500.0])
def test_gains_of_devices_are_exact(gain: float) -> None:
    assert find_limits(gain, 0, -4000, 4000, 16).is_exact
    assert find_limits(gain, -5, -32_000, 32_000, 16).is_exact


@pytest.mark.parametrize("gain", [300 * math.pi, 500 * math.sqrt(2)])
def test_limits_of_24_bits_are_as_precise_as_16(gain: float) -> None:
    """A wide range is used only if the values need it, because it reduces precision."""
    narrow, wide = (find_limits(gain, 3, -2000, 2000, bits) for bits in (16, 24))
    assert not narrow.is_exact
    assert (wide.lowest, wide.highest, wide.low, wide.high) == (-(2**15), 2**15 - 1, narrow.low, narrow.high)
    needed = find_limits(gain, 3, -5_000_000, 100, 24)
    assert (needed.lowest, needed.highest) == (-5_000_000, 2**15 - 1)


def test_gain_outside_the_header_field_is_rejected() -> None:
    with pytest.raises(SignalError, match="an EDF header cannot represent"):
        find_limits(1e-9, 0, -5, 5, 16)


def test_missing_samples_are_rejected_or_filled_with_an_annotation(tmp_path: Path) -> None:
    recording = make_recording(("I", "V2"), 1000)
    recording.digital[1, 200:300] = missing_value(np.int16)
    with pytest.raises(SignalError, match="100 samples are missing, and edf files cannot mark them"):
        write_quickly(recording, tmp_path / "r.edf")
    assert write_quickly(recording, tmp_path / "r.edf", WriteOptions(fill_missing=True)) == (FILLED_NOTE,)
    with contextlib.closing(pyedflib.EdfReader(str(tmp_path / "r.edf"))) as file:
        values = file.readSignal(1, digital=True)
        onset, duration, text = file.readAnnotations()
    assert values[200:300].tolist() == [0] * 100
    np.testing.assert_array_equal(values[300:], recording.digital[1, 300:])
    assert (onset.tolist(), duration.tolist(), text.tolist()) == ([0.4], [0.2], ["V2: 100 missing set to 0"])


def test_fill_value_outside_16_bits(tmp_path: Path) -> None:
    recording = make_recording(("I",), 500)
    recording.digital[0, 5] = missing_value(np.int16)
    moved = dataclasses.replace(recording, baseline=np.array([40_000], np.int32))
    write_quickly(moved, tmp_path / "r.edf", WriteOptions(fill_missing=True))
    ours = read(tmp_path / "r.edf")
    assert ours.signal[0, 5] == 0
    np.testing.assert_allclose(np.delete(ours.signal, 5), np.delete(moved.signal, 5), atol=0.0015)


def test_labels_and_episodes_are_annotations(tmp_path: Path) -> None:
    episodes = (Episode(0, 250, "NSR"), Episode(250, 5000, "AFIB" * 20))
    recording = dataclasses.replace(make_recording(labels=("59118001", "Vorhofflattern öö")), episodes=episodes)
    assert write_quickly(recording, tmp_path / "r.edf") == ("labels are shortened or left out",)
    with contextlib.closing(pyedflib.EdfReader(str(tmp_path / "r.edf"))) as file:
        onset, duration, text = file.readAnnotations()
    assert onset.tolist() == [0.0, 0.0, 0.0, 0.5]
    assert duration.tolist() == [-1.0, -1.0, 0.5, 9.5]
    assert text.tolist() == ["59118001", "Vorhofflattern öö", "NSR", "AFIB" * 10]


def test_many_annotations(tmp_path: Path) -> None:
    episodes = tuple(Episode(start, start + 1, f"e{start}") for start in range(200))
    recording = dataclasses.replace(make_recording(), episodes=episodes)
    notes = write_quickly(recording, tmp_path / "r.edf")
    with contextlib.closing(pyedflib.EdfReader(str(tmp_path / "r.edf"))) as file:
        found = file.readAnnotations()[2].tolist()
        np.testing.assert_array_equal(file.readSignal(2, digital=True), recording.digital[2])
    records = plan_records(recording.num_samples, recording.sampling_rate, 6).count
    assert len(found) == min(200, 64 * records)
    assert ("labels are shortened or left out" in notes) == (len(found) < 200)


def test_no_patient_id_and_no_date_by_default(tmp_path: Path) -> None:
    recording = dataclasses.replace(make_recording(patient_id="Smith 42"), site="St Elsewhere", sex="female")
    write_quickly(recording, tmp_path / "r.edf")
    raw = (tmp_path / "r.edf").read_bytes()
    assert raw[8:88].decode().strip() == "X F X X"
    assert raw[88:168].decode().strip() == "Startdate 01-JAN-1985 X X X"
    assert b"Elsewhere" not in raw
    write_quickly(recording, tmp_path / "r.edf", WriteOptions(patient_ids=True))
    assert (tmp_path / "r.edf").read_bytes()[8:88].decode().strip() == "Smith_42 F X X"


def test_same_recording_gives_same_bytes(tmp_path: Path) -> None:
    for name in ("a.edf", "b.edf"):
        write_quickly(make_recording(), tmp_path / name)
    assert (tmp_path / "a.edf").read_bytes() == (tmp_path / "b.edf").read_bytes()


def test_raw_digital_values_have_no_unit(tmp_path: Path) -> None:
    recording = dataclasses.replace(make_recording(), unit="adu", gain=np.ones(3))
    write_quickly(recording, tmp_path / "r.edf")
    with contextlib.closing(pyedflib.EdfReader(str(tmp_path / "r.edf"))) as file:
        assert file.getPhysicalDimension(0) == ""
        np.testing.assert_array_equal(file.readSignal(0), recording.digital[0])


def test_long_lead_names_are_numbered(tmp_path: Path) -> None:
    recording = make_recording(("a very long name 1", "a very long name 2"))
    assert write_quickly(recording, tmp_path / "r.edf") == ("lead names are shortened or written in ASCII",)
    with contextlib.closing(pyedflib.EdfReader(str(tmp_path / "r.edf"))) as file:
        assert file.getSignalLabels() == ["ECG 1", "ECG 2"]


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library does not report it; its file is only shorter."""
    whole = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: whole(path)[:-100])
    with pytest.raises(StoreError, match=r"No space left on device\. Nothing was committed"):
        write(make_recording(), tmp_path / "r.edf")
    assert os.listdir(tmp_path) == []


def test_missing_temporary_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match="cannot write a temporary file: No such file or directory"):
        write(make_recording(), tmp_path / "r.edf")


def test_missing_pyedflib_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyedflib", None)
    with pytest.raises(MissingExtraError, match=r"clocs\[edf\]"):
        write(make_recording(), tmp_path / "r.edf")
