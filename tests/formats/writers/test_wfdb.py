"""WFDB records of clocs, read by the ``wfdb`` package."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import given, settings

from clocs.core.recording import Recording
from clocs.formats import read
from clocs.formats.writers.wfdb import SCALE_LOST, TEXT_CHANGED
from clocs.formats.writing import write
from tests.conftest import make_recording
from tests.formats.writers.recordings import ORIGINALS, chapman, originals, recordings, write_quickly


def check(recording: Recording, folder: Path) -> None:
    """Assert that the package reads the same integers, gain, baseline, sampling rate, names and length."""
    write_quickly(recording, folder / "r.hea")
    raw = wfdb.rdrecord(str(folder / "r"), physical=False)
    np.testing.assert_array_equal(raw.d_signal.T, recording.digital)
    np.testing.assert_array_equal(raw.adc_gain, recording.gain)
    np.testing.assert_array_equal(raw.baseline, recording.baseline)
    assert raw.checksum == raw.calc_checksum()
    assert raw.init_value == recording.digital[:, 0].tolist()
    assert raw.fs == pytest.approx(
        recording.sampling_rate, abs=1e-8
    )  # the package takes a rate this near a whole one for it
    assert (raw.sig_len, tuple(raw.sig_name)) == (recording.num_samples, recording.leads)
    assert set(raw.units) == {"mV"}
    ours = read(folder / "r.hea", derive_leads=False)
    np.testing.assert_array_equal(ours.digital, recording.digital)
    assert ours.digital.dtype == recording.digital.dtype
    assert (ours.age, ours.sex, ours.labels) == (recording.age, recording.sex, recording.labels)
    np.testing.assert_array_equal(ours.signal, recording.signal)


@settings(max_examples=30)
@given(recording=recordings())
def test_exact_round_trip_of_any_recording(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(recording, tmp_path_factory.mktemp("wfdb"))


def test_exact_round_trip_of_real_recordings(real_data: Path, tmp_path: Path) -> None:
    for recording in (*chapman(real_data / "chapman.zip", 10), *originals(real_data / "originals.zip", "ludb")):
        check(recording, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("publisher", ORIGINALS)
def test_exact_round_trip_of_all_originals(real_data: Path, publisher: str, tmp_path: Path) -> None:
    found = list(originals(real_data / "originals.zip", publisher))
    assert len(found) == ORIGINALS[publisher]
    for recording in found:
        check(recording, tmp_path)


@pytest.mark.slow
def test_exact_round_trip_of_a_hundred_chapman_recordings(real_data: Path, tmp_path: Path) -> None:
    found = list(chapman(real_data / "chapman.zip", 100))
    assert len(found) == 100
    for recording in found:
        check(recording, tmp_path)


def test_raw_digital_values_are_unchanged(tmp_path: Path) -> None:
    recording = dataclasses.replace(make_recording(), unit="adu", gain=np.ones(3))
    assert write(recording, tmp_path / "r.hea").notes == ()
    ours = read(tmp_path / "r.hea", derive_leads=False)
    assert ours.unit == "adu"
    np.testing.assert_array_equal(ours.physical(), recording.physical())
    scaled = dataclasses.replace(recording, gain=np.full(3, 2.0))
    assert write(scaled, tmp_path / "s.hea").notes == (SCALE_LOST,)


def test_comments_follow_the_physionet_challenges(tmp_path: Path) -> None:
    """The challenge of 2020 writes ``#Age: 74``, ``#Sex: Male``, ``#Dx: 59118001,426783006``."""
    recording = make_recording(labels=("59118001", "426783006"))
    write(dataclasses.replace(recording, age=74.0, sex="male"), tmp_path / "r.hea")
    assert wfdb.rdheader(str(tmp_path / "r")).comments == ["Age: 74", "Sex: Male", "Dx: 59118001,426783006"]


def test_invalid_texts_are_changed_with_a_note(tmp_path: Path) -> None:
    recording = make_recording(("I", "Ableitung ß\n2"), labels=("a,b", "c\nd"))
    assert write(recording, tmp_path / "r.hea").notes == (TEXT_CHANGED,)
    ours = read(tmp_path / "r.hea")
    assert ours.leads == ("I", "Ableitung ? 2")
    assert ours.labels == ("a_b", "c_d")
    np.testing.assert_array_equal(ours.digital, recording.digital)


def test_derived_leads_are_listed(tmp_path: Path) -> None:
    write(make_recording(), tmp_path / "r.hea", derived=True)
    header = wfdb.rdheader(str(tmp_path / "r"))
    assert header.sig_name == ["I", "II", "III", "aVR", "aVL", "aVF", "V2"]
    assert header.comments == ["Derived from I and II: III, aVR, aVL, aVF"]
