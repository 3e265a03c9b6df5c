"""MFER files, compared with ecgdatakit (an independent reader)."""

from __future__ import annotations

import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from ecgdatakit import FileParser

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import TWO_LEADS, Rows, mfer_channel, mfer_file, mfer_tag
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit

MONITOR = "mfer/monk_test-file.mwf"


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"m.mwf": raw}), "m.mwf")


def digital_values(rows: Rows = TWO_LEADS) -> list[list[int]]:
    return [list(row) for row in rows.values()]


def test_real_file_matches_ecgdatakit(hospital_files: Path, tmp_path: Path) -> None:
    """Twelve minutes of a monitor in twelve sequences: two ECG channels at 250 Hz, pressures and states."""
    source = open_source(hospital_files)
    recording = read_from(source, MONITOR)
    assert (recording.leads, recording.sampling_rate, recording.num_samples) == (("II", "V5"), 250.0, 180_000)
    assert recording.provenance.notes == ("left out 4 channels that are not ECG",)
    (tmp_path / "theirs.mwf").write_bytes(source.read(MONITOR))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = {lead.label: lead for lead in FileParser().parse(tmp_path / "theirs.mwf").leads}
    for row, lead in enumerate(recording.leads):
        expected = theirs[lead].to_physical()
        assert (expected.units, theirs[lead].sampling_rate) == ("mV", 250)
        np.testing.assert_allclose(recording.signal[row], expected.samples, rtol=0, atol=1e-6)


def test_identity_of_the_real_file(hospital_files: Path) -> None:
    assert read_identity_from(open_source(hospital_files), MONITOR) == {
        "patient_name": ("TRWRU",),
        "patient_id": ("12345",),
        "acquired": ("2019-06-19T13:20:00",),
    }


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(order: str, tmp_path: Path) -> None:
    raw = mfer_file(order=order)
    recording = read_example(raw)
    assert (recording.leads, recording.sampling_rate, recording.gain.tolist()) == (("I", "II"), 500.0, [500.0, 500.0])
    assert recording.digital.tolist() == digital_values()
    theirs = read_with_ecgdatakit(raw, tmp_path, "theirs.mwf") if order == "<" else None
    assert theirs is None or theirs.sampling_rate == 500.0


def test_sequences_are_concatenated() -> None:
    """A sequence contains one block per channel."""
    raw = mfer_file({"I": (1, 2, 5, 6), "II": (3, 4, 7, 8)}, mfer_tag(0x04, b"\2"), mfer_tag(0x06, b"\2"))
    assert read_example(raw).digital.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_wrong_declared_lengths() -> None:
    rows: Rows = {"I": (1, 2, 5), "II": (3, 4, 7)}
    with pytest.raises(FormatError, match="not complete sequences of 8 bytes"):
        read_example(mfer_file(rows, mfer_tag(0x04, b"\2")))
    announced = read_example(mfer_file(rows, mfer_tag(0x06, struct.pack("<I", 10**9))))
    assert announced.digital.tolist() == digital_values(rows)
    assert announced.provenance.num_declared_samples == 3 * 10**9


@pytest.mark.parametrize(("code", "kind"), [(1, "<u2"), (5, "i1"), (3, "u1"), (2, "<i4")])
def test_samples_of_every_integer_type(code: int, kind: str) -> None:
    rows: Rows = {"I": (1, 2, 3), "II": (4, 5, 100)}
    raw = mfer_file(rows, mfer_tag(0x0A, bytes([code])), kind=kind)
    assert read_example(raw).digital.tolist() == digital_values(rows)


def test_missing_samples_offsets_and_channel_definitions() -> None:
    own = mfer_channel(1, mfer_tag(0x09, struct.pack("<H", 3)), mfer_tag(0x0D, struct.pack("<h", -10)))
    recording = read_example(mfer_file(TWO_LEADS, mfer_tag(0x12, struct.pack("<h", 300)), own))
    assert recording.leads == ("I", "V1")
    assert np.isnan(recording.signal[0]).tolist() == [False, False, True, False]
    np.testing.assert_allclose(recording.signal[1], (np.array(TWO_LEADS["II"]) - 10) * 0.002, atol=1e-6)


def test_other_channels_are_left_out() -> None:
    pressure = mfer_channel(1, mfer_tag(0x0C, b"\1\0\1"))
    assert read_example(mfer_file(TWO_LEADS, pressure)).leads == ("I",)
    slower = mfer_channel(1, mfer_tag(0x09, b"\2\0"), mfer_tag(0x0B, b"\1\xfd\4"))
    recording = read_example(mfer_file(TWO_LEADS, slower))
    assert (recording.leads, recording.sampling_rate) == (("I",), 500.0)
    assert recording.provenance.notes == ("left out 1 ECG channels of other rates",)


def test_sampling_rate_in_hertz() -> None:
    assert read_example(mfer_file(TWO_LEADS, mfer_tag(0x0B, b"\0\0" + struct.pack("<h", 250)))).sampling_rate == 250.0


def test_averaged_beat_is_rejected() -> None:
    beat = mfer_tag(0x08, b"\x09")
    with pytest.raises(FormatError, match="an averaged beat is not a recording"):
        read_example(mfer_file(TWO_LEADS, beat))
    longer = mfer_tag(0x1E, np.zeros(100, "<i2").tobytes())
    assert read_example(mfer_file(TWO_LEADS, beat, longer, mfer_tag(0x08, b"\1"))).digital.tolist() == digital_values()


@pytest.mark.parametrize("order", ["<", ">"])
def test_waveform_code_with_a_description(order: str) -> None:
    """The description follows the code of two bytes."""
    beat, long_term = (struct.pack(f"{order}H", code) for code in (9, 2))
    with pytest.raises(FormatError, match="an averaged beat is not a recording"):
        read_example(mfer_file(TWO_LEADS, mfer_tag(0x08, beat + b"Dominant"), order=order))
    unnamed = mfer_channel(1, mfer_tag(0x09, b""))
    recording = read_example(mfer_file(TWO_LEADS, mfer_tag(0x08, long_term + b"Long term"), unnamed, order=order))
    assert recording.leads == ("I", "ECG")


def test_channel_skew_is_noted() -> None:
    assert read_example(mfer_file(TWO_LEADS, mfer_tag(0x43, b"\0\0"))).provenance.notes == ()
    for skew in (mfer_tag(0x43, b"\1\0"), mfer_channel(1, mfer_tag(0x43, b"\1\0"))):
        assert "skew" in read_example(mfer_file(TWO_LEADS, skew)).provenance.notes[0]


def test_zeros_between_definitions_are_skipped() -> None:
    raw = mfer_file(TWO_LEADS, bytes(50_000_000))
    start = time.process_time()
    assert read_example(raw).digital.tolist() == digital_values()
    assert time.process_time() - start < 2


def test_identity_fields() -> None:
    about = mfer_tag(0x81, b"Example^Anna\0") + mfer_tag(0x82, b"P-7") + mfer_tag(0x84, b"\2")
    about += mfer_tag(0x83, b"\xff\xff\xff" + struct.pack("<HBB", 1950, 12, 24))
    about += mfer_tag(0x85, struct.pack("<HBBBBBHH", 2000, 12, 25, 7, 30, 5, 0, 0))
    about += mfer_tag(0x17, b"Maker^Model^1^SN-9") + mfer_tag(0x16, b"typed") + mfer_tag(0x87, b"1.2.3")
    raw = mfer_file(TWO_LEADS, about=about)
    recording = read_example(raw)
    assert (recording.age, recording.sex) == (50.0, "female")
    assert read_identity_from(MemorySource({"m.mwf": raw}), "m.mwf") == {
        "patient_name": ("Example^Anna",),
        "patient_id": ("P-7",),
        "birth_date": ("1950-12-24",),
        "acquired": ("2000-12-25T07:30:05",),
        "device_serial": ("SN-9",),
        "order": ("1.2.3",),
        "free_text": ("typed",),
    }


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ([mfer_tag(0x05, b"\0")], "0 channels"),
        ([mfer_tag(0x05, struct.pack("<I", 10**9))], "1000000000 channels"),
        ([mfer_tag(0x04, struct.pack("<I", 10**9))], "a sequence has 4000000000 bytes"),
        ([mfer_tag(0x0A, b"\7")], "MFER type 7"),
        ([mfer_tag(0x0E, b"\1")], "compressed MFER"),
        ([mfer_tag(0x0B, b"\2\0\1")], "no sampling rate"),
        ([mfer_tag(0x0B, b"\1\0\0")], "no sampling rate"),
        ([mfer_tag(0x0C, b"")], "none of its 2 channels is an ECG"),
        ([mfer_tag(0x0C, b"\0\0\0")], "not a voltage"),
        ([b"\x16\x80"], "is not supported"),
        ([b"\x16\x84\xff\xff\xff\xff"], "breaks off"),
        ([b"\x3f\xff"], "breaks off|not supported"),
    ],
)
def test_invalid_definitions_are_rejected(definitions: list[bytes], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(mfer_file(TWO_LEADS, *definitions))


def test_file_without_samples_is_rejected() -> None:
    with pytest.raises(FormatError, match="no frame of samples"):
        read_example(mfer_tag(0x40, b"MFR "))
