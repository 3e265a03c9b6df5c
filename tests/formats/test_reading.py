"""Detection of the format of a file by its content, with any name and in any folder."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, FormatError
from clocs.core.recording import Recording
from clocs.core.sources.folder_source import FolderSource
from clocs.core.sources.source import open_source
from clocs.formats import FORMATS, read, read_from
from clocs.formats.reading import HEAD_BYTES, detect_format
from tests.formats.binary_examples import WRITERS as BINARY_WRITERS
from tests.formats.xml_examples import WRITERS

HEADER = "r1 2 500 4\nr1.dat 16 1000/mV 16 0 0 0 0 I\nr1.dat 16 1000/mV 16 0 0 0 0 II\n"
DIGITAL = np.array([[1, -2, 3, -32768], [50, 60, -70, 80]], np.int16)


def wfdb(folder: Path) -> Path:
    (folder / "r1.hea").write_text(HEADER)
    DIGITAL.T.astype("<i2").tofile(folder / "r1.dat")
    return folder / "r1.hea"


def csv(folder: Path) -> Path:
    (folder / "c1.csv").write_text("1,2,3,4,5,6,7,8,9,10,11,12\n" * 3)
    return folder / "c1.csv"


def clocs_csv(folder: Path) -> Path:
    (folder / "k1.csv").write_text("# clocs ECG 2\n# sampling_rate: 500\ntime,I,II\n0,1,2\n0.002,3,12\n")
    return folder / "k1.csv"


def irhythm(folder: Path) -> Path:
    np.arange(10, dtype="<i2").tofile(folder / "s_1.ecg")
    episodes = {"episodes": [{"onset": 1, "offset": 10, "rhythm_name": "NSR"}]}
    (folder / "s_1_grp0.episodes.json").write_text(json.dumps(episodes))
    return folder / "s_1.ecg"


def xml(write: Callable[[], str]) -> Callable[[Path], Path]:
    def example(folder: Path) -> Path:
        (folder / "x1.xml").write_text(write(), encoding="utf-8")
        return folder / "x1.xml"

    return example


def binary(write: Callable[[int], bytes]) -> Callable[[Path], Path]:
    def example(folder: Path) -> Path:
        (folder / "b1.bin").write_bytes(write(1))
        return folder / "b1.bin"

    return example


EXAMPLES = {"wfdb": wfdb, "chapman-csv": csv, "irhythm": irhythm} | {name: xml(WRITERS[name]) for name in WRITERS}
EXAMPLES |= {name: binary(BINARY_WRITERS[name]) for name in BINARY_WRITERS}
EXAMPLES["clocs-csv"] = clocs_csv


OTHERS = [
    *(b"", b"\0" * 5000, b"\xff\xfe" * 3000, b"\n\n\n", b"hello\n", b"PK\3\4"),
    *(b"<", b"<?xml", b"<!--", b"<![", b"<html><body>", b"<?xml version='1.0'?><svg/>", b"<a:RestingECGs/>"),
]


def assert_same_recording(one: Recording, other: Recording) -> None:
    assert one.leads == other.leads
    assert one.record_id == other.record_id
    assert one.provenance.sha256 == other.provenance.sha256
    np.testing.assert_array_equal(one.digital, other.digital)


def test_every_format_has_an_example() -> None:
    assert set(EXAMPLES) == set(FORMATS.names())


@pytest.mark.parametrize("name", FORMATS.names())
def test_contract_of_a_format(name: str, tmp_path: Path) -> None:
    form = FORMATS.get(name)
    assert form.name == name
    assert form.description
    path = EXAMPLES[name](tmp_path)
    source = open_source(tmp_path)
    head = source.head(path.name, HEAD_BYTES)
    assert [other.name for other in FORMATS if other.matches(head, source, path.name)] == [name]
    recording = form.read(source, path.name)
    assert recording.provenance.format == name
    assert recording.provenance.source == path.name
    assert len(recording.provenance.sha256) == 64
    assert recording.provenance.derived_leads == ()
    assert recording.record_id == path.stem


@pytest.mark.parametrize("name", FORMATS.names())
@pytest.mark.parametrize("content", OTHERS)
def test_no_format_matches_other_content(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    assert FORMATS.get(name).matches(content[:HEAD_BYTES], FolderSource(tmp_path), "x") is False


@pytest.mark.parametrize("name", FORMATS.names())
def test_hash_changes_with_the_content(name: str, tmp_path: Path) -> None:
    path = EXAMPLES[name](tmp_path)
    before = read(path).provenance.sha256
    companion = {"wfdb": "r1.dat", "irhythm": "s_1_grp0.episodes.json"}.get(name, path.name)
    raw = (tmp_path / companion).read_bytes()
    if name in BINARY_WRITERS:
        changed = BINARY_WRITERS[name](2)
    elif name in WRITERS:
        changed = raw + b"\n"
    else:
        texts = {"chapman-csv": (b"12\n", b"13\n"), "clocs-csv": (b"12\n", b"13\n"), "irhythm": (b"NSR", b"SVT")}
        changed = raw.replace(*texts.get(name, (raw, raw[:-1] + bytes([raw[-1] ^ 1]))))
    (tmp_path / companion).write_bytes(changed)
    assert read(path).provenance.sha256 != before


@pytest.mark.parametrize("named", ["r1.hea", "r1.dat", "r1"])
def test_wfdb_record_named_by_any_of_its_files(named: str, tmp_path: Path) -> None:
    wfdb(tmp_path)
    recording = read(tmp_path / named, derive_leads=False)
    assert recording.record_id == "r1"
    np.testing.assert_array_equal(recording.digital, DIGITAL)


@pytest.mark.parametrize("named", ["A0001.hea", "A0001.mat", "A0001"])
def test_record_inside_a_zip(named: str, originals: Path) -> None:
    folder = originals / "cpsc2018" / "Training_WFDB"
    recording = read(folder / named)
    assert_same_recording(recording, read_from(open_source(originals), "cpsc2018/Training_WFDB/A0001.hea"))
    assert recording.num_samples == 7500


@pytest.mark.parametrize("name", FORMATS.names())
def test_folder_and_zip_give_the_same_recording(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    path = EXAMPLES[name](folder)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"in/{file.name}")
    assert_same_recording(read(tmp_path / "set.zip" / "in" / path.name), read(path))


@pytest.mark.parametrize(("name", "other"), [("wfdb", "r1.txt"), ("chapman-csv", "c1.hea"), ("chapman-csv", "c1")])
def test_format_depends_on_content_not_on_extension(name: str, other: str, tmp_path: Path) -> None:
    path = EXAMPLES[name](tmp_path)
    expected = read(path)
    path.rename(tmp_path / other)
    np.testing.assert_array_equal(read(tmp_path / other).digital, expected.digital)
    found = detect_format(open_source(tmp_path), other)
    assert found is not None
    assert found.name == name


def test_header_of_a_name_with_dots(tmp_path: Path) -> None:
    wfdb(tmp_path)
    (tmp_path / "r1.hea").rename(tmp_path / "r1.2024.hea")
    assert read(tmp_path / "r1.2024", derive_leads=False).leads == ("I", "II")


def test_derive_leads_option(tmp_path: Path) -> None:
    path = wfdb(tmp_path)
    full = clocs.read(path)
    assert full.leads == ("I", "II", "III", "aVR", "aVL", "aVF")
    assert full.provenance.derived_leads == ("III", "aVR", "aVL", "aVF")
    assert clocs.read(path, derive_leads=False).leads == ("I", "II")


def test_folder_is_rejected_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a folder.*clocs data ingest folder"):
        read(tmp_path)


def test_unknown_content_is_rejected_with_a_list_of_formats(tmp_path: Path) -> None:
    (tmp_path / "ecg.doc").write_bytes(b"Dear colleague")
    with pytest.raises(FormatError, match=r"ecg\.doc: not a format clocs knows \(wfdb, chapman-csv, irhythm"):
        read(tmp_path / "ecg.doc")


@pytest.mark.parametrize(
    ("start", "kind"),
    [(b"%PDF-1.7", "PDF"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"\xff\xd8\xff\xe0", "JPEG"), (b"MM\0*", "TIFF")],
)
def test_images_are_rejected_with_advice(start: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / "scan").write_bytes(start + bytes(100))
    with pytest.raises(FormatError, match=f"scan: images of ECGs are not read, and this is a {kind} file. Export"):
        read(tmp_path / "scan")


def test_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"absent\.hea: no such file"):
        read(tmp_path / "absent.hea")
    with pytest.raises(ConfigError, match="no such folder"):
        read(tmp_path / "nowhere" / "a.hea")


@pytest.mark.parametrize(("error", "outcome"), [(MemoryError, MemoryError), (RecursionError, FormatError)])
def test_recursion_error_is_a_format_error_but_memory_error_is_not(
    error: type[Exception], outcome: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> bytes:
        raise error

    path = wfdb(tmp_path)
    source = open_source(tmp_path)
    monkeypatch.setattr(FolderSource, "read", exhausted)
    with pytest.raises(outcome):
        read_from(source, path.name)


def test_every_hospital_format_has_a_file_that_tests_write() -> None:
    """Formats of published datasets have files of their own tests."""
    datasets = {"wfdb", "chapman-csv", "irhythm", "clocs-csv"}
    assert {*WRITERS, *BINARY_WRITERS} == set(FORMATS.names()) - datasets
