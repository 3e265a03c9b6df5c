"""SCP-ECG files, compared with ecgdatakit (an independent reader), a DICOM copy and an EDF copy."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit
from tests.formats.scp_encoding import Scp, crc, record, scp_leads, section

EIGHT_LEADS = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
TWELVE = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
ANONYMOUS = "scp/scptools_anon_ECG_"
FILES: dict[str, tuple[tuple[str, ...], float, int, float | None, str | None]] = {
    "scp/contec_0000050.scp": (TWELVE, 800.0, 32767, None, None),
    "scp/contec_demo.scp": (EIGHT_LEADS, 1000.0, 10000, 47.0, "male"),
    "scp/ecgtoolkit_Example.scp": ((*EIGHT_LEADS, "III", "aVR", "aVL", "aVF"), 500.0, 5000, 49.0, "male"),
    "scp/scptools_ECG_20170504_163507_123456789.scp": (EIGHT_LEADS, 600.0, 6000, 104.0, "male"),
    f"{ANONYMOUS}00000000_000000_ANON000001.scp": (
        *(("I", "II", "V3R", "V1", "V2", "V4", "V6", "V7"), 600.0, 6000, 36.0, None),
    ),
    f"{ANONYMOUS}20070321_110542_ANON000004.scp": (EIGHT_LEADS, 600.0, 6000, 39.0, None),
    f"{ANONYMOUS}20081029_105642_ANON000010.scp": (EIGHT_LEADS, 600.0, 6000, 40.0, None),
    f"{ANONYMOUS}20170504_163507_ANON000009.scp": (EIGHT_LEADS, 600.0, 6000, 104.0, None),
}
"""Leads, sampling rate, number of samples, age and sex of every file."""
REFUSED = {
    "scp/healforce_62.scp": "does not conform to SCP-ECG",
    "scp/scptools_test_log.scp": "section 3 is not where its pointer says; the file is damaged",
}
SMALL = np.array([[1, -2, 300, 4, 0], [50, 60, -70, 80, -500]])


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"s.scp": raw}), "s.scp")


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert {name for name in archive.namelist() if re.match("scp/.", name)} == {*FILES, *REFUSED}


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_read(name: str, hospital_files: Path) -> None:
    recording = read_from(open_source(hospital_files), name)
    found = (recording.leads, recording.sampling_rate, recording.num_samples, recording.age, recording.sex)
    assert found == FILES[name]
    assert recording.digital.dtype == np.int16


@pytest.mark.parametrize("name", [name for name in FILES if "contec" not in name])
def test_values_match_ecgdatakit(name: str, hospital_files: Path, tmp_path: Path) -> None:
    """ecgdatakit rejects the two contec files."""
    source = open_source(hospital_files)
    recording, theirs = read_from(source, name), read_with_ecgdatakit(source.read(name), tmp_path, "theirs.scp")
    assert recording.leads == tuple(theirs.leads)
    assert recording.sampling_rate == theirs.sampling_rate
    np.testing.assert_allclose(recording.physical(), np.stack(list(theirs.leads.values())), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_corrupt_and_nonconforming_files_are_rejected(name: str, hospital_files: Path) -> None:
    with pytest.raises(FormatError, match=rf"{name}: {REFUSED[name]}"):
        read_from(open_source(hospital_files), name)


def test_record_matches_its_dicom_copy(hospital_files: Path) -> None:
    source = open_source(hospital_files)
    ours = read_from(source, "scp/ecgtoolkit_Example.scp")
    copy = read_from(source, "dicom/ecgtoolkit_Example.dcm")
    assert (ours.sampling_rate, ours.age, ours.sex) == (copy.sampling_rate, copy.age, copy.sex)
    np.testing.assert_allclose(ours.select(copy.leads).signal, copy.signal, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.select(copy.leads).digital, copy.digital)


def test_record_truncated_at_64_kib_per_lead_matches_its_edf_copy(hospital_files: Path) -> None:
    """The EDF copy has all 37,855 samples but states another gain, so digital values are compared."""
    source = open_source(hospital_files)
    ours, copy = read_from(source, "scp/contec_0000050.scp"), read_from(source, "edf/contec_0000050.edf")
    np.testing.assert_array_equal(ours.digital, copy.digital[:, :32767])
    assert ours.provenance.num_declared_samples == copy.num_samples == 37855
    assert ours.provenance.notes == ("12 leads hold fewer samples than declared",)


def test_identity_of_the_sample_files(hospital_files: Path) -> None:
    source = open_source(hospital_files)
    assert read_identity_from(source, "scp/contec_demo.scp") == {
        "patient_name": ("Patient", "Demo"),
        "patient_id": ("12-678-QW",),
        "birth_date": ("1957-06-24",),
        "device_serial": ("\x03128",),
        "acquired": ("2004-06-24T16:52:16",),
        "free_text": ("demo patient",),
    }
    swapped = read_identity_from(source, f"{ANONYMOUS}20081029_105642_ANON000010.scp")
    assert swapped["birth_date"] == ("1900-01-01",)
    assert swapped["free_text"][1:] == ("sinus rhythm", "Normal ECG")


@pytest.mark.parametrize(
    ("age", "birth", "acquired", "expected"),
    [
        ((40, 1), (1960, 1, 1), (2000, 1, 1), 40.0),
        ((6, 2), None, None, 0.5),
        ((26, 3), None, None, 26 * 7 / 365.25),
        ((0, 0), (1960, 6, 2), (2000, 6, 1), 39.0),
        (None, (1960, 6, 1), (2000, 6, 1), 40.0),
        (None, (0x6C07, 1, 1), (2000, 6, 1), None),
        (None, (1960, 13, 1), (2000, 6, 1), None),
        ((900, 1), None, None, None),
        ((40, 9), None, None, None),
    ],
)
def test_age_is_stated_or_computed_from_dates(
    age: tuple[int, int] | None,
    birth: tuple[int, int, int] | None,
    acquired: tuple[int, int, int] | None,
    expected: float | None,
) -> None:
    tags = struct.pack("<BHHB", 4, 3, *age) if age else b""
    tags += struct.pack("<BHHBB", 5, 4, *birth) if birth else b""
    tags += struct.pack("<BHHBB", 25, 4, *acquired) if acquired else b""
    scp = scp_leads(SMALL)
    scp.sections[1] = tags + b"\xff\0\0"
    assert read_example(record(scp)).age == pytest.approx(expected)


def test_section_1_is_read_up_to_the_first_invalid_tag() -> None:
    scp = scp_leads(SMALL)
    scp.sections[1] = struct.pack("<BHB", 8, 1, 2) + struct.pack("<BH", 0, 5000) + b"cut off"
    assert read_example(record(scp)).sex == "female"
    assert read_identity_from(MemorySource({"s.scp": record(scp)}), "s.scp") == {"patient_name": ("cut off",)}


@pytest.mark.parametrize(
    ("interval", "sampling_rate"),
    [(1667, 600.0), (2000, 500.0), (3333, 300.0), (3906, 256.0), (1250, 800.0), (30030, 1e6 / 30030)],
)
def test_sampling_rate_from_rounded_interval(interval: int, sampling_rate: float) -> None:
    assert read_example(record(scp_leads(SMALL, interval=interval))).sampling_rate == sampling_rate


def test_checksums_follow_the_standard() -> None:
    """Compare with a CRC-CCITT computed bit by bit."""
    data = bytes(range(200))
    assert struct.unpack("<H", section(5, data)[:2])[0] == crc(section(5, data)[2:])


@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_damaged_section_is_rejected_by_its_number(number: int) -> None:
    scp = scp_leads(SMALL)
    scp.sections[1] = b"\xff\0\0"
    raw = bytearray(record(scp))
    (at,) = struct.unpack_from("<I", raw, 22 + 10 * number + 6)
    raw[at - 1 + 16] ^= 1
    with pytest.raises(FormatError, match=rf"section {number} does not match its checksum"):
        read_example(bytes(raw))


def test_wrong_checksum_of_the_record_is_noted() -> None:
    raw = bytearray(record(scp_leads(SMALL)))
    raw[0] ^= 1
    recording = read_example(bytes(raw))
    np.testing.assert_array_equal(recording.digital, SMALL)
    assert recording.provenance.notes == ("the checksum of the record does not match; those of its sections do",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({3: b"\0\0"}, "section 3 lists no leads"),
        ({3: struct.pack("<BBIIB", 1, 12, 5, 4, 1)}, "a lead from sample 5 to 4 is invalid"),
        ({3: struct.pack("<BBIIB", 1, 12, 1, 10**9, 1)}, "claims 1000000000 samples"),
        ({3: b"\2\0" + struct.pack("<IIB", 1, 2, 1)}, "breaks off"),
        ({2: struct.pack("<H", 0)}, "0 Huffman tables"),
        ({2: struct.pack("<HH", 1, 60000)}, "a Huffman table of 60000 codes"),
        ({2: struct.pack("<HHBBBhI", 1, 1, 30, 30, 1, 0, 0)}, "codes of 1 to 18 bits"),
        ({6: struct.pack("<HHBB", 0, 2000, 0, 0) + struct.pack("<HH", 2, 2) + bytes(4)}, "not a voltage"),
        ({6: struct.pack("<HHBB", 2500, 0, 0, 0) + struct.pack("<HH", 2, 2) + bytes(4)}, "interval of 0 us"),
        ({6: struct.pack("<HHBB", 2500, 2000, 0, 0) + struct.pack("<HH", 20, 2) + bytes(22)}, "holds 19 bytes more"),
        ({6: struct.pack("<HHBB", 2500, 2000, 0, 0) + struct.pack("<HH", 2, 2) + bytes(24)}, "holds 20 bytes more"),
        ({6: struct.pack("<HHBB", 2500, 2000, 7, 0) + bytes(40)}, "differences of order 7"),
    ],
)
def test_invalid_sections_are_rejected(change: dict[int, bytes], message: str) -> None:
    scp = scp_leads(SMALL)
    scp.sections |= change
    with pytest.raises(FormatError, match=message):
        read_example(record(scp))


@pytest.mark.parametrize("number", [3, 6])
def test_record_without_leads_or_rhythm_is_rejected(number: int) -> None:
    scp = scp_leads(SMALL)
    del scp.sections[number]
    with pytest.raises(FormatError, match=f"has no section {number}"):
        read_example(record(scp))


def test_empty_record_is_rejected() -> None:
    with pytest.raises(FormatError, match="has no section 3"):
        read_example(record(Scp()))
