"""Uploads are read as ``clocs.read`` does, without identity and without access to other files."""

from __future__ import annotations

import io
import random
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ClocsError, FormatError, LeadError, SignalError
from clocs.core.recording import Provenance
from clocs.formats import read
from clocs.formats.writing import write
from clocs.service.parsing import reading
from clocs.service.parsing.messages import MAX_SAMPLES, ParsedRecording
from clocs.service.parsing.reading import (
    MemorySource,
    check_length,
    failure_from_error,
    first_seconds,
    read_upload,
    remove_identity,
    upload_source,
)
from clocs.signals.leads import STANDARD_LEADS
from tests.conftest import make_recording
from tests.service.samples import FORMATS, SAMPLES, sample


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_files_by_name() -> None:
    source = MemorySource({"b.dat": b"12345", "a.hea": b"xyz"})
    assert list(source.names()) == ["a.hea", "b.dat"]
    assert (source.read("a.hea"), source.head("b.dat", 2), source.size("b.dat")) == (b"xyz", b"12", 5)
    assert not source.exists("c")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "c"])
def test_files_outside_the_upload_do_not_exist(name: str) -> None:
    source = upload_source({"a.hea": b"x"})
    assert not source.exists(name)
    with pytest.raises(FormatError, match="no such file in the upload"):
        source.read(name)


def test_an_archive_is_opened() -> None:
    source = upload_source({"x.ZIP": zipped({"deep/a.hea": b"xyz", "../../b": b"1"})})
    assert sorted(source.names()) == ["../../b", "deep/a.hea"]
    assert source.read("deep/a.hea") == b"xyz"


def test_an_archive_comes_alone() -> None:
    with pytest.raises(FormatError, match="alone"):
        upload_source({"x.zip": zipped({}), "a.hea": b""})


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", b"no archive", zipped({"a": b"1"})[:-5]],
    ids=["empty", "a beginning", "something else", "without its end"],  # a zip's bytes hold the time
)
def test_a_broken_archive_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="the upload is not a readable zip"):
        upload_source({"x.zip": data})


@pytest.mark.parametrize("name", SAMPLES)
def test_a_real_file_is_read_as_the_package_reads_it(name: str, real_data: Path, tmp_path: Path) -> None:
    files = sample(real_data, name)
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    wanted, found = read(tmp_path / next(iter(files))), read_upload(files)
    assert sorted(found.leads) == sorted(wanted.leads)
    assert np.array_equal(found.digital, wanted.select(found.leads).digital)
    assert np.array_equal(found.gain, wanted.select(found.leads).gain)
    assert (found.sampling_rate, found.unit, found.age, found.sex) == (
        wanted.sampling_rate,
        wanted.unit,
        wanted.age,
        wanted.sex,
    )
    assert found.provenance.format == FORMATS.get(name, name)
    assert (found.record_id, found.patient_id, found.site, found.labels) == ("", "", "", ())
    known = [lead for lead in STANDARD_LEADS if lead in found.leads]
    assert list(found.leads[: len(known)]) == known


@pytest.mark.parametrize("name", ["cpsc", "muse-xml"])
def test_a_zip_of_it_is_as_good(name: str, real_data: Path) -> None:
    files = sample(real_data, name)
    pack_message = zipped({f"folder/{file}": data for file, data in files.items()})
    assert np.array_equal(read_upload({"ecg.zip": pack_message}).digital, read_upload(files).digital)


def test_other_files_in_a_zip_are_ignored(real_data: Path) -> None:
    beside = {"__MACOSX/._x.xml": b"\x00\x05\x16\x07", ".DS_Store": b"Bud1", "readme.txt": b"hello"}
    assert read_upload({"ecg.zip": zipped({**sample(real_data, "muse-xml"), **beside})}).num_samples == 5000


def refusal(files: dict[str, bytes]) -> str:
    with pytest.raises(FormatError) as error:
        read_upload(files)
    return str(error.value)


def test_two_recordings_are_rejected(real_data: Path) -> None:
    both = {**sample(real_data, "muse-xml"), **sample(real_data, "scp")}
    assert "contains 2 recordings" in refusal(both)
    assert "contains 2 recordings" in refusal({"x.zip": zipped(both)})


def test_folders_of_a_zip_leave_the_words_whole() -> None:
    damaged = b"# clocs ECG 2\n# sampling_rate: -1\nI,II\n" + b"0,0\n" * 600
    said = refusal({"x.csv": damaged})
    assert "sampling_rate" in said
    assert refusal({"x.zip": zipped({"a/rate/e/x.csv": damaged})}) == said


def test_a_header_without_its_signal_says_what_to_do(real_data: Path) -> None:
    header = {name: data for name, data in sample(real_data, "cpsc").items() if name.endswith(".hea")}
    assert refusal(header).startswith(
        "The header refers to a signal file that is not in the upload. Send both together"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not a format clocs knows (wfdb, chapman-csv"),
        (b"hello", "not a format clocs knows (wfdb, chapman-csv"),
        (
            b"\x89PNG\r\n\x1a\n" + bytes(1000),
            "images of ECGs are not read, and this is a PNG file. Export the signal from",
        ),
        (b"%PDF-1.4", "images of ECGs are not read, and this is a PDF file. Export the signal from"),
    ],
)
def test_other_files_are_explained(data: bytes, said: str) -> None:
    assert said in refusal({"mrs-smith.pdf": data})
    assert "smith" not in refusal({"mrs-smith.pdf": data})


def test_uploads_without_end_are_refused() -> None:
    many = {f"{number}.txt": b"x" for number in range(100)}
    assert "more than 64 files" in refusal({"x.zip": zipped(many)})
    assert "contains no file" in refusal({"x.zip": zipped({})})


def test_a_zip_in_a_zip_is_not_opened(real_data: Path) -> None:
    inner = zipped(sample(real_data, "muse-xml"))
    assert "not a format" in refusal({"x.zip": zipped({"y.zip": inner})})


def test_an_encrypted_zip_is_refused() -> None:
    raw = bytearray(zipped({"a.xml": b"x" * 100}))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + place] |= 1
    assert "damaged in its archive" in refusal({"x.zip": bytes(raw)})


@pytest.mark.parametrize("place", ["/etc/passwd", "../../etc/passwd", "..", "\\etc\\passwd", "file:///etc/passwd"])
def test_a_header_cannot_name_a_file_elsewhere(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file at all is opened while an upload is read."""

    def opened(*arguments: object, **options: object) -> None:
        raise AssertionError(f"opened {arguments}")

    header = f"rec 1 500 100\n{place} 16 200/mV 16 0 0 0 0 I\n".encode()
    refusal({"rec.hea": header, "rec.dat": bytes(200)})  # loads what it needs
    monkeypatch.setattr("builtins.open", opened)
    monkeypatch.setattr("io.open", opened)
    said = refusal({"rec.hea": header, "rec.dat": bytes(200)})
    assert "passwd" not in said


def test_names_that_can_be_typed_in_are_replaced() -> None:
    recording = replace(
        make_recording(("Ada Winterbottom", "V2", "I"), labels=("AFIB",)),
        age=94.0,
        site="St. Winter",
    )
    noted = replace(recording.provenance, notes=("lead Ada Winterbottom left out", "2 samples missing"), source="x.xml")
    found = remove_identity(replace(recording, provenance=noted))
    assert found.leads == ("I", "V2", "lead 1")
    assert "Winter" not in repr(replace(found, digital=found.digital[:, :1]))
    assert found.provenance.notes == ("lead ... ... left out", "2 samples missing")
    assert found.age == 90
    assert remove_identity(replace(recording, age=63.4713)).age == 63
    assert remove_identity(replace(recording, age=0.5123)).age == 0.5
    assert np.array_equal(found.digital[2], recording.digital[0])


def test_only_reviewed_fields_of_a_recording_are_sent() -> None:
    """A field that is new here may hold what was typed: decide in ``nameless`` whether it may leave."""
    assert {field.name for field in fields(Provenance)} == {
        *("source", "sha256"),  # emptied
        *("derived_leads", "notes"),  # cleaned
        *("format", "num_declared_samples"),
    }
    assert set(ParsedRecording.model_fields) == {
        *(
            "leads",
            "gain",
            "baseline",
            "dtype",
            "num_samples",
            "sampling_rate",
            "unit",
            "age",
            "sex",
            "stated_measurements",  # numbers within their limits
            "provenance",
            "seconds",
        ),
        "patient_id",  # empty but for the intake, which replaces it by a pseudonym
        "acquired",  # empty but for the intake, which shifts it under its key
    }


def test_long_recordings_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = make_recording(num_samples=5000)
    assert check_length(recording, 10.0) is recording
    with pytest.raises(SignalError, match=r"3 leads of 10 s; this service accepts up to 9 s"):
        check_length(recording, 9.0)
    assert first_seconds(recording, 4.0).num_samples == 2000
    assert first_seconds(recording, 40.0).num_samples == 5000
    monkeypatch.setattr(reading, "MAX_SAMPLES", 3000)
    assert first_seconds(recording, 40.0).num_samples == 1000
    with pytest.raises(SignalError, match="3,000 samples"):
        check_length(recording, 10.0)
    assert MAX_SAMPLES > 12 * 600 * 1000


def test_any_format_that_can_be_written_is_read(tmp_path: Path) -> None:
    recording = make_recording(("I", "II", "V1"), num_samples=5000, record_id="ecg")
    write(recording, tmp_path / "ecg.csv")
    assert read_upload({"ecg.csv": (tmp_path / "ecg.csv").read_bytes()}).provenance.format == "clocs-csv"


@pytest.mark.parametrize(
    ("error", "name", "words"),
    [
        (FormatError("holds no sample"), "FormatError", "holds no sample"),
        (LeadError("x"), "LeadError", "x"),
        (SignalError("x"), "SignalError", "x"),
        (MemoryError(), "MemoryError", "more memory"),
    ],
)
def test_failures(error: Exception, name: str, words: str) -> None:
    failure = failure_from_error(error)
    assert failure.error == name
    assert words in failure.message


def test_unexpected_errors_reveal_only_type_and_location() -> None:
    try:
        int("Winterbottom")
    except ValueError as error:
        failure = failure_from_error(error)
    assert failure.error == "unexpected"
    assert failure.place.startswith("ValueError test_reading.py:")
    assert "Winterbottom" not in failure.model_dump_json()


def test_errors_of_an_archive_are_of_the_package() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.xml", b"<RestingECG>" + random.Random(0).randbytes(10_000))
    raw = bytearray(buffer.getvalue())
    raw[5000:5020] = b"\xff" * 20
    with pytest.raises(ClocsError, match="damaged"):
        read_upload({"x.zip": bytes(raw)})
