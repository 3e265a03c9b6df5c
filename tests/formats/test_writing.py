"""Common behaviour of all writers: names and extensions, options, and atomic writing."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clocs
from clocs.core.errors import ConfigError, SignalError, StoreError
from clocs.core.recording import Recording, missing_value
from clocs.formats.writers.digital_values import fit_to_bits, to_ascii
from clocs.formats.writing import WRITERS, WriteOptions, encode, plain_name, writer_for
from tests.conftest import make_recording
from tests.faults.failing_disk import Disk, use_disk
from tests.formats.writers.recordings import millivolts, recordings

PERSON = b"Smith-42"


@pytest.mark.parametrize("name", WRITERS.names())
def test_contract_of_a_writer(name: str, tmp_path: Path) -> None:
    writer = WRITERS.get(name)
    assert writer.name == name
    assert writer.description
    recording = make_recording(patient_id=PERSON.decode())
    done = clocs.write(recording, tmp_path / f"r{writer.suffixes[0]}")
    assert sorted(done.files) == sorted(tmp_path.iterdir())
    assert done.files[-1] == tmp_path / f"r{writer.suffixes[0]}"
    assert not any(PERSON in file.read_bytes() for file in done.files)
    for suffix in writer.suffixes:
        assert writer_for(Path(f"A{suffix.upper()}"), None).name == name
    before = [file.read_bytes() for file in done.files]
    with pytest.raises(ConfigError, match="exists; have it replaced"):
        clocs.write(make_recording(seed=1), tmp_path / f"r{writer.suffixes[0]}")
    assert [file.read_bytes() for file in done.files] == before
    clocs.write(make_recording(seed=1), tmp_path / f"r{writer.suffixes[0]}", overwrite=True)
    assert [file.read_bytes() for file in done.files] != before


@pytest.mark.parametrize("name", WRITERS.names())
def test_same_recording_gives_same_bytes(name: str) -> None:
    writer = WRITERS.get(name)
    first, second = (encode(make_recording(), writer, "r", WriteOptions()).files for _ in range(2))
    assert dict(first) == dict(second)


@pytest.mark.parametrize("name", sorted(set(WRITERS.names()) - {"parquet"}))
def test_derived_leads_are_marked_in_every_format(name: str, tmp_path: Path) -> None:
    """Parquet, which clocs does not read, lists them in a column."""
    path = tmp_path / "files" / f"r{WRITERS.get(name).suffixes[0]}"
    clocs.write(make_recording(("I", "II", "V2"), 5000), path, derived=True)
    assert clocs.read(path).provenance.derived_leads == ("III", "aVR", "aVL", "aVF")
    store = clocs.ingest("folder", tmp_path / "files", tmp_path / "store")
    assert store.table(["leads"]).column(0).to_pylist() == [["I", "II", "V2"]]


@pytest.mark.parametrize("name", ["dicom", "edf", "bdf"])
def test_long_patient_id_is_rejected(name: str, tmp_path: Path) -> None:
    """A truncated id could belong to two patients."""
    path = tmp_path / f"r{WRITERS.get(name).suffixes[0]}"
    with pytest.raises(SignalError, match="patient id has over"):
        clocs.write(make_recording(patient_id="1" * 65), path, patient_ids=True)
    clocs.write(make_recording(patient_id="1" * 65), path)


@pytest.mark.parametrize("name", WRITERS.names())
def test_invalid_recordings_are_rejected(name: str) -> None:
    writer = WRITERS.get(name)
    good = make_recording()
    empty = dataclasses.replace(good, digital=good.digital[:, :0])
    for wrong in (
        empty,
        dataclasses.replace(good, gain=np.array([0.0, 1, 1])),
        dataclasses.replace(good, gain=np.array([np.nan, 1, 1])),
        dataclasses.replace(good, sampling_rate=0.0),
        dataclasses.replace(good, sampling_rate=float("inf")),
    ):
        with pytest.raises(SignalError, match="recording 'r0'"):
            encode(wrong, writer, "r", WriteOptions())


@pytest.mark.parametrize("name", WRITERS.names())
def test_disk_failure_at_every_call(name: str, tmp_path: Path) -> None:
    """A full disk at any call gives a clear error and no partial file."""
    target = tmp_path / "out" / f"r{WRITERS.get(name).suffixes[0]}"
    target.parent.mkdir()
    recording = make_recording(num_samples=100)
    whole = Disk()
    with use_disk(whole):
        clocs.write(recording, target)
    expected = {file.name: file.read_bytes() for file in target.parent.iterdir()}
    for call in range(1, whole.calls + 1):
        with use_disk(Disk(call, errno.ENOSPC)), pytest.raises(StoreError, match="No space left on device"):
            clocs.write(recording, target, overwrite=True)
        assert {file.name: file.read_bytes() for file in target.parent.iterdir()} == expected


def test_unknown_extensions_and_invalid_names_are_rejected(tmp_path: Path) -> None:
    recording = make_recording()
    with pytest.raises(ConfigError, match=r"r\.xyz: no format has this extension. Use one of \.hea \(wfdb\)"):
        clocs.write(recording, tmp_path / "r.xyz")
    with pytest.raises(ConfigError, match=r"Unknown writer 'dicm'\. Did you mean 'dicom'"):
        clocs.write(recording, tmp_path / "r.xyz", "dicm")
    with pytest.raises(ConfigError, match="'a b' cannot name a file of wfdb"):
        clocs.write(recording, tmp_path / "a b.hea")
    with pytest.raises(ConfigError, match="cannot name a file"):
        clocs.write(recording, tmp_path / ".edf")
    assert os.listdir(tmp_path) == []


def test_named_format_allows_any_extension(tmp_path: Path) -> None:
    clocs.write(make_recording(), tmp_path / "1.2.840.5", "dicom")
    assert clocs.read(tmp_path / "1.2.840.5").provenance.format == "dicom"
    clocs.write(make_recording(), tmp_path / "A0001", "wfdb")
    assert sorted(os.listdir(tmp_path)) == ["1.2.840.5", "A0001.dat", "A0001.hea"]


def test_unwritable_paths_are_reported(tmp_path: Path) -> None:
    recording = make_recording()
    with pytest.raises(ConfigError, match="is a folder; name a file, such as"):
        clocs.write(recording, tmp_path, "edf")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Cannot write .*file/r\.edf: Not a directory"):
        clocs.write(recording, tmp_path / "file" / "r.edf")
    with pytest.raises(StoreError, match="File name too long"):
        clocs.write(recording, tmp_path / ("r" * 300 + ".edf"))


def test_derived_leads_are_written_only_on_request(tmp_path: Path) -> None:
    recording = make_recording()
    clocs.write(recording, tmp_path / "r.hea")
    read = clocs.read(tmp_path / "r.hea")
    assert len(read.leads) == 7
    clocs.write(read, tmp_path / "held.hea")
    assert clocs.read(tmp_path / "held.hea", derive_leads=False).leads == recording.leads
    clocs.write(recording, tmp_path / "all.hea", derived=True)
    full = clocs.read(tmp_path / "all.hea", derive_leads=False)
    assert full.leads == read.leads
    np.testing.assert_array_equal(full.signal, read.signal)


@settings(max_examples=150)
@given(recording=recordings(), prefer_zero_baseline=st.booleans(), bits=st.sampled_from([16, 24]))
def test_fit_to_bits_is_exact_if_possible(recording: Recording, prefer_zero_baseline: bool, bits: int) -> None:
    limit = 2 ** (bits - 1) - 1
    expected = millivolts(recording)
    for row, lead in enumerate(fit_to_bits(recording, bits, prefer_zero_baseline=prefer_zero_baseline)):
        assert np.abs(lead.values).max() <= limit
        np.testing.assert_array_equal(lead.missing, np.isnan(expected[row]))
        there = ~lead.missing
        found = (lead.values - lead.baseline) / lead.gain
        digital = recording.digital[row].astype(np.int64)[there]
        span = int(np.abs(digital - recording.baseline[row]).max(initial=0))
        fits = np.abs(digital).max(initial=0) <= limit or span <= limit
        assert lead.is_rounded is not bool(fits)
        error = np.abs(found - expected[row])[there].max(initial=0)
        assert error <= (0.5 / abs(lead.gain) if lead.is_rounded else 0) + 1e-12 * np.abs(expected[row][there]).max(
            initial=0
        )
        if prefer_zero_baseline and span <= limit:
            assert lead.baseline == 0


def test_int16_recordings_keep_their_integers() -> None:
    recording = dataclasses.replace(make_recording(), baseline=np.array([5, -7, 40_000], np.int32))
    recording.digital[0, 0] = missing_value(np.int16)
    leads = fit_to_bits(recording, 16, prefer_zero_baseline=False)
    assert [lead.baseline for lead in leads] == [5, -7, 40_000]
    np.testing.assert_array_equal(leads[1].values, recording.digital[1])


@pytest.mark.parametrize(
    ("text", "longest", "expected"), [("a\tb\n", 9, "a b"), (" über ", 9, "?ber"), ("abc def", 4, "abc"), ("", 4, "")]
)
def test_texts_are_made_plain(text: str, longest: int, expected: str) -> None:
    assert to_ascii(text, longest) == expected


def test_names_are_made_plain() -> None:
    assert [plain_name(name) for name in ("A0001", "a b.c", "ü", "")] == ["A0001", "a_b_c", "_", "_"]
