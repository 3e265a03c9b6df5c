"""Headers of WFDB records: their content, and invalid headers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import wfdb
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import missing_companions
from clocs.formats.wfdb.header import parse_header
from clocs.formats.wfdb.record import WFDB
from tests.formats.wfdb_records import assert_rejected, make


def test_demographics_and_diagnoses_of_real_headers(originals: Path) -> None:
    source = open_source(originals)
    cpsc = read_from(source, "cpsc2018/Training_WFDB/A0001.hea")
    assert (cpsc.age, cpsc.sex, cpsc.labels) == (74.0, "male", ("59118001",))
    ludb = read_from(source, "ludb/data/1.hea")
    assert (ludb.age, ludb.sex) == (51.0, "female")


@pytest.mark.parametrize(
    ("comments", "age", "sex", "labels"),
    [
        ("#Age: NaN\n#Sex: Unknown\n#Dx: Unknown", None, None, ("Unknown",)),
        ("# Age: 8\n# Sex: Female\n# Dx: 1, 2,3", 8.0, "female", ("1", "2", "3")),
        ("#Age: 300\n#sex: m", None, "male", ()),
        ("#Dx: 426783006\n#Dx: 164889003,426783006", None, None, ("426783006", "164889003")),
        ("#Dx: Mr Smith, born 1950, AFIB", None, None, ("AFIB",)),
        ("#nothing known", None, None, ()),
    ],
)
def test_incomplete_comments(
    tmp_path: Path, comments: str, age: float | None, sex: str | None, labels: tuple[str, ...]
) -> None:
    recording = make(tmp_path, f"# first\nr 1 360 4\nr.dat 16 200/mV 16 0 0 0 0 I\n{comments}\n")
    assert (recording.age, recording.sex, recording.labels) == (age, sex, labels)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_encodings_of_comments(encoding: str) -> None:
    """Å has a byte in UTF-8 that ends a line in Latin-1."""
    header = parse_header("r 1 360 4\nr.dat 16 200/mV 16 0 0 0 0 I\n# Dx: Århus, Müller\n".encode(encoding), "r.hea")
    assert header.comments == ("Dx: Århus, Müller",)


@pytest.mark.parametrize(
    ("field", "sampling_rate"), [("360", 360.0), ("128.5", 128.5), ("500/250(0)", 500.0), ("", 250.0)]
)
def test_sampling_rate_field(field: str, sampling_rate: float) -> None:
    """header(5): a counter frequency may follow; the default is 250 Hz."""
    assert parse_header(f"r 1 {field}\nr.dat 16\n".encode(), "r.hea").sampling_rate == sampling_rate


@pytest.mark.parametrize(
    "file", ["../r.dat", "sub/r.dat", "/etc/hostname", "..", ".", "..\\r.dat", "C:\\r.dat", "a/../../r.dat"]
)
def test_signal_files_outside_the_folder_are_rejected(tmp_path: Path, file: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "r.dat").write_bytes(b"1234")
    assert_rejected(inner, f"r 1 360 2\n{file} 16 200/mV 16 0 0 0 0 I\n", "outside the record's folder")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("r/2 1 360 4\na 2\nb 2\n", "multi-segment records are not supported; read their segments"),
        ("r 1 360 4\nr.dat 16x2 200/mV 16 0 0 0 0 I\n", "several rates or skewed"),
        ("r 1 360 4\nr.dat 16:5 200/mV 16 0 0 0 0 I\n", "several rates or skewed"),
        ("r 1 360 4\nr.dat 310 200/mV 16 0 0 0 0 I\n", r"format 310 is not supported; supported: \[16, 24"),
        ("r 1 360 4\nr.dat x 200/mV 16 0 0 0 0 I\n", "names no format"),
        ("r 1 360 4\nr.dat\n", "names no format"),
        ("r 2 360 4\nr.dat 16 200/mV 16 0 0 0 0 I\n", "2 signals declared, 1 described"),
        ("r 0 360 4\n", "is not a record"),
        ("r 1000000000 360 4\nr.dat 16\n", "is not a record"),
        ("r 1 0 4\nr.dat 16\n", "is not a record"),
        ("r 1 360 -4\nr.dat 16\n", "is not a record"),
        ("r 1 nan 4\nr.dat 16\n", "is not a record"),
        ("r 1 360 many\nr.dat 16\n", "the record line is not"),
        ("r 1 360 4\nr.dat 16 1e999/mV 16 0 0 0 0 I\n", "out of range"),
        ("r 1 360 4\nr.dat 16 200(99999999999)/mV 16 0 0 0 0 I\n", "out of range"),
        ("r 1 360 4\nr.dat 16 200/mV 16 zero 0 0 0 I\n", "is not a number"),
        ("r 1 360 4\nabsent.dat 16 200/mV 16 0 0 0 0 I\n", "a signal file that it names is missing"),
        ("r 1 360 4\nr.dat 16+99 200/mV 16 0 0 0 0 I\n", "hold no sample"),
        ("r 1 360 4\nr.dat 516 200/mV 16 0 0 0 0 I\n", "r.hea: damaged FLAC"),
        ("r 3 360 4\nr.dat 16\nx.dat 16\nr.dat 16\n", "must be consecutive"),
        ("r 2 360 4\nr.dat 16\nr.dat 16+2\n", "must be consecutive"),
    ],
)
def test_invalid_headers_are_rejected_with_a_reason(tmp_path: Path, header: str, message: str) -> None:
    assert_rejected(tmp_path, header, message, r_dat=b"12345678", x_dat=b"12345678")


@settings(max_examples=200)
@given(st.binary(max_size=80), st.text("r 123/:x+()#.-emVdat\n", max_size=80))
def test_any_header_is_read_or_rejected(noise: bytes, text: str) -> None:
    for data in (noise, text.encode(), b"r 1 360 4\n" + text.encode()):
        try:
            header = parse_header(data, "r.hea")
        except FormatError:
            continue
        assert 1 <= len(header.signals) <= 256
        assert header.sampling_rate > 0


@pytest.mark.parametrize(
    ("line", "acquired"),
    [
        ("r 1 500 4 10:30:05 24/12/1999", "1999-12-24T10:30:05"),
        ("r 1 500 4 10:30:05.250 4/2/1999", "1999-02-04T10:30:05.250000"),
        ("r 1 500 4 2014-05-08 05:05:15", "2014-05-08T05:05:15"),
        ("r 1 500 4 12-May-2020 12:33:59", "2020-05-12T12:33:59"),
        ("r 1 500 4 10:30:05", "10:30:05"),
    ],
)
def test_start_of_a_record(line: str, acquired: str, tmp_path: Path) -> None:
    make(tmp_path, f"{line}\nr.dat 16 1000/mV 16 0 0 0 0 I\n")
    assert WFDB.read_identity(open_source(tmp_path), "r.hea") == {"acquired": (acquired,)}


@pytest.mark.parametrize("code", [16, 24, 32, 80, 212])
def test_expected_size_of_signal_files_matches_the_wfdb_package(code: int, tmp_path: Path) -> None:
    samples = np.arange(3 * 101).reshape(101, 3) % 100
    about = {"fs": 500, "units": ["mV"] * 3, "sig_name": ["I", "II", "V1"], "fmt": [str(code)] * 3}
    wfdb.wrsamp("r", d_signal=samples, adc_gain=[200.0] * 3, baseline=[0] * 3, write_dir=str(tmp_path), **about)
    size = (tmp_path / "r.dat").stat().st_size
    assert WFDB.companions(open_source(tmp_path), "r.hea") == {"r.dat": size}


def test_missing_companions_of_a_record(tmp_path: Path) -> None:
    lines = [f"{file} 1000/mV 16 0 0 0 0 {file[0]}" for file in ("a.dat 16+4", "b.dat 80", "c.dat 516")]
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "r.hea").write_text("\n".join(["r 3 500 10", *lines]))
    source = open_source(tmp_path)
    assert missing_companions(source, "s/r.hea") == {"s/a.dat": None, "s/b.dat": None, "s/c.dat": None}
    for file, size in {"a.dat": 24, "b.dat": 9, "c.dat": 1}.items():
        (tmp_path / "s" / file).write_bytes(bytes(size))
    assert missing_companions(source, "s/r.hea") == {"s/b.dat": 9}, "how long a compressed file must be is not known"
    (tmp_path / "s" / "r.hea").write_text("no header")
    assert missing_companions(source, "s/r.hea") == {}


def test_invalid_codes_are_left_out_with_a_note(tmp_path: Path) -> None:
    recording = make(tmp_path, "r 1 500 4\nr.dat 16 1000/mV 16 0 0 0 0 I\n#Dx: Mr Smith,AFIB\n#Dx: born 1950\n")
    assert recording.provenance.notes == ("left out 2 entries of Dx that are not codes",)


def test_signal_files_of_different_length_are_truncated_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "r.hea").write_text("r 2 500\na.dat 16 1000/mV 16 0 0 0 0 I\nb.dat 16 1000/millivolts 16 0 0 0 0 II\n")
    for file, num_samples in (("a.dat", 10), ("b.dat", 7)):
        (tmp_path / file).write_bytes(bytes(2 * num_samples))
    recording = read_from(open_source(tmp_path), "r.hea")
    assert (recording.leads, recording.num_samples, recording.unit) == (("I", "II"), 7, "mV")
    assert recording.provenance.notes == ("its signal files differ in length, by 3 samples",)


def test_long_header_is_rejected_quickly() -> None:
    start = time.process_time()
    with pytest.raises(FormatError, match="a header of 50000000 bytes is too long"):
        parse_header(b"#\n" * 25_000_000, "r.hea")
    assert time.process_time() - start < 1


def test_other_comments_are_free_text(tmp_path: Path) -> None:
    known = ("Age: 74", "<sex>: Male", "Dx: 59118001,426783006", "Derived from I and II: III, aVR")
    comments = (*known, "Rx: aspirin", "Age: 69 of Main St", "plain text", "Dx: Mr Smith", "Derived from I and II: Ann")
    make(tmp_path, "r 1 500 4\nr.dat 16 1000/mV 16 0 0 0 0 I\n" + "".join(f"# {comment}\n" for comment in comments))
    typed = ("aspirin", "69 of Main St", "plain text", "Mr Smith", "Ann")
    assert WFDB.read_identity(open_source(tmp_path), "r.hea") == {"free_text": typed}
