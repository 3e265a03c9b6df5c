"""AliveCor ATC files, compared with blocks parsed here by the specification, because no other reader exists."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import TWO_LEADS, atc_block, atc_file, atc_leads

LIMBS = ("I", "II", "III", "aVR", "aVL", "aVF")
FILES = {
    "atc/atc2json_test_AFib_ef.atc": (("I",), 8999),
    "atc/atc2json_test_NSR_ef.atc": (("I",), 8999),
    "atc/atcpy_1_lead.atc": (("I",), 9000),
    "atc/atcpy_6_lead.atc": (LIMBS, 9000),
    "atc/atcpy_6_lead_ab.atc": (LIMBS, 9000),
    "atc/atcpy_6_lead_ef.atc": (LIMBS, 9000),
}
BROKEN = "atc/atcpy_broken_checksum.atc"


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"k.atc": raw}), "k.atc")


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert {name for name in archive.namelist() if re.match("atc/.", name)} == {*FILES, BROKEN}


@pytest.mark.parametrize("name", FILES)
def test_samples_of_every_file_match_its_blocks(name: str, hospital_files: Path) -> None:
    source = open_source(hospital_files)
    raw = source.read(name)
    recording = read_from(source, name)
    assert (recording.leads, recording.num_samples) == FILES[name]
    assert (recording.sampling_rate, set(recording.gain.tolist())) == (300.0, {2000.0})
    for row, block in enumerate((b"ecg ", b"ecg2", b"ecg3", b"ecg4", b"ecg5", b"ecg6")[: len(recording.leads)]):
        (found,) = re.finditer(re.escape(block + struct.pack("<I", 2 * recording.num_samples)), raw)
        np.testing.assert_array_equal(
            recording.digital[row], np.frombuffer(raw, "<i2", recording.num_samples, found.end())
        )


def test_limb_leads_satisfy_einthovens_equations(hospital_files: Path) -> None:
    """The equations III = II - I and aVF = (II + III) / 2 confirm the names of the blocks."""
    one, two, three, _, left, foot = read_from(open_source(hospital_files), "atc/atcpy_6_lead.atc").signal
    np.testing.assert_allclose(three, two - one, atol=0.002)
    np.testing.assert_allclose(foot, (two + three) / 2, atol=0.002)
    np.testing.assert_allclose(left, one - two / 2, atol=0.002)


def test_wrong_checksum_is_rejected(hospital_files: Path) -> None:
    with pytest.raises(FormatError, match="block at byte 308 does not match its checksum"):
        read_from(open_source(hospital_files), BROKEN)


def test_identity_fields() -> None:
    assert read_identity_from(MemorySource({"k.atc": atc_file(*atc_leads())}), "k.atc") == {
        "acquired": ("2020-01-02T03:04:05+01:00",),
        "order": ("uuid-1",),
        "device_serial": ("SN=AC9,BAT=5",),
    }


def test_three_kinds_of_checksum_are_accepted() -> None:
    block = b"ecg " + struct.pack("<I", 8) + np.array([1, -2, 300, 4], "<i2").tobytes()
    signed = sum(struct.unpack(f"<{len(block)}b", block)) % 2**32
    for checksum in (sum(block), signed, zlib.crc32(block)):
        assert read_example(atc_file(block + struct.pack("<I", checksum))).digital.tolist() == [[1, -2, 300, 4]]


def test_averaged_beats_are_not_read() -> None:
    beat = atc_block(b"avg ", np.arange(450, dtype="<i2").tobytes())
    assert read_example(atc_file(beat, *atc_leads())).digital.tolist() == [
        list(digital_values) for digital_values in TWO_LEADS.values()
    ]
    with pytest.raises(FormatError, match="no ECG block"):
        read_example(atc_file(beat))


def test_twelve_lead_files() -> None:
    blocks = [
        atc_block(b"ecg" + letter, np.array([row], "<i2").tobytes())
        for row, letter in enumerate([b" ", *(bytes([c]) for c in b"23456789abc")])
    ]
    recording = read_example(atc_file(*blocks))
    assert recording.leads == (*LIMBS, "V1", "V2", "V3", "V4", "V5", "V6")
    assert recording.digital[:, 0].tolist() == list(range(12))


def test_leads_of_different_length_are_truncated() -> None:
    blocks = [atc_block(b"ecg ", bytes(8)), atc_block(b"ecg2", bytes(6))]
    recording = read_example(atc_file(*blocks))
    assert recording.num_samples == 3
    assert recording.provenance.notes == ("cut 1 longer leads to the length of the shortest",)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"ALIVE\0\0\0\3\0\0\0", "no format block"),
        (atc_file(*atc_leads())[:-1], "breaks off"),
        (atc_file(b"ecg " + struct.pack("<I", 2**32 - 1)), "breaks off"),
        (atc_file(atc_block(b"ecg ", b"")), "holds no sample"),
        (atc_file(atc_block(b"fmt ", b"\2\0\0\0\0\0\0\0"), *atc_leads()), "ECG format 2"),
        (atc_file(atc_block(b"fmt ", struct.pack("<BHH3x", 1, 300, 0)), *atc_leads()), "not a voltage"),
        (atc_file(*[atc_block(b"note", b"")] * 1001), "over 1000 blocks"),
    ],
)
def test_damaged_file_is_rejected(raw: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(raw)
