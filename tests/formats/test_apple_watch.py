"""Apple Watch CSV in several languages and with both decimal marks, compared with Python's parser of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.formats import read_from
from clocs.formats.reading import detect_format, read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import APPLE_LINES, apple_file

GERMAN = (
    *("Name,Anna Example", 'Geburtstag,"24.12.1950"', "Aufzeichnungsdatum,2020-12-25 07:30:05 +0100"),
    *("Klassifizierung,Sinusrhythmus", "Symptome,Ohne", "Softwareversion,1.90", 'Gerät,"Watch6,7"'),
    *("Messrate,511,109 Hertz", "", "", "Ableitung,Ableitung I", "Einheit,µV", ""),
)
JAPANESE = (
    *("名前,Anna Example", "生年月日,1950-12-24", "記録日,2020-12-25 07:30:05 +0900", "分類,洞調律", "症状,"),
    *(
        "ソフトウェアバージョン,2.0",
        'デバイス,"Watch6,1"',
        "サンプルレート,512ヘルツ",
        "",
        "誘導,第I誘導",
        "単位,\u03bcV",
        "",
    ),
)


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"ecg_2020-12-25.csv": raw}), "ecg_2020-12-25.csv")


def test_english_file() -> None:
    recording = read_example(apple_file())
    assert (recording.leads, recording.sampling_rate, recording.age, recording.sex) == (("I",), 512.844, 70.0, None)
    assert recording.digital.tolist() == [[-48673, 0, 59681, 1200500]]
    np.testing.assert_allclose(1000 * recording.signal[0], [-48.673, 0, 59.681, 1200.5], rtol=1e-6)
    assert recording.record_id == "ecg_2020-12-25"


@pytest.mark.parametrize("quoted", [False, True])
def test_german_file_with_decimal_commas(quoted: bool) -> None:
    values = ["-48,673", "0", "59,681", "1200,5"]
    recording = read_example(apple_file([f'"{value}"' for value in values] if quoted else values, GERMAN))
    assert (recording.leads, recording.sampling_rate, recording.age) == (("I",), 511.109, 70.0)
    assert recording.digital.tolist() == [[-48673, 0, 59681, 1200500]]


def test_german_file_that_starts_with_an_integer() -> None:
    """The decimal comma appears only in a later line."""
    assert read_example(apple_file(["12", "-3", "4,5"], GERMAN)).digital.tolist() == [[12000, -3000, 4500]]


def test_japanese_file() -> None:
    recording = read_example(apple_file(lines=JAPANESE))
    assert (recording.leads, recording.sampling_rate, recording.age) == (("ECG",), 512.0, 70.0)


def test_windows_line_ends_a_byte_order_mark_and_semicolons() -> None:
    raw = b"\xef\xbb\xbf" + apple_file().replace(b"\n", b"\r\n")
    assert read_example(raw).digital.tolist() == [[-48673, 0, 59681, 1200500]]
    lines = [line.replace(",", ";", 1) for line in APPLE_LINES]
    assert read_example(apple_file(lines=lines)).sampling_rate == 512.844


@given(st.lists(st.integers(-(10**8), 10**8), min_size=1, max_size=50), st.sampled_from([".", ","]))
def test_three_decimals_are_exact(digital_values: list[int], mark: str) -> None:
    values = [f"{step / 1000:.3f}".replace(".", mark) for step in digital_values]
    assert read_example(apple_file(values, GERMAN if mark == "," else APPLE_LINES)).digital.tolist() == [digital_values]


@pytest.mark.parametrize(("lines", "found"), [(APPLE_LINES, "Sinus Rhythm"), (GERMAN, "Sinusrhythmus")])
def test_identity_fields(lines: tuple[str, ...], found: str) -> None:
    identity = read_identity_from(MemorySource({"e.csv": apple_file(lines=lines)}), "e.csv")
    assert identity["patient_name"] == ("Anna Example",)
    assert identity["birth_date"] in (("Dec 24, 1950",), ("24.12.1950",))
    assert identity["acquired"] == ("2020-12-25T07:30:05+01:00",)
    assert identity["free_text"][0] == found
    assert set(identity) == {"patient_name", "birth_date", "acquired", "free_text"}


@pytest.mark.parametrize(
    ("birth", "age"),
    [
        ("24 Dec 1950", 70.0),
        ("December 26, 1950", 69.0),
        ("1950-12-25", 70.0),
        ("12/24/1950", None),
        ("24 dic 1950", None),
        ("", None),
        ("Feb 30, 1950", None),
    ],
)
def test_only_unambiguous_birth_dates_are_parsed(birth: str, age: float | None) -> None:
    lines = [f'Date of Birth,"{birth}"' if line.startswith("Date of") else line for line in APPLE_LINES]
    assert read_example(apple_file(lines=lines)).age == age


def test_name_that_looks_like_a_sampling_rate() -> None:
    lines = ["Name,50 Cent", *APPLE_LINES[1:]]
    assert read_example(apple_file(lines=lines)).sampling_rate == 512.844
    assert read_identity_from(MemorySource({"e.csv": apple_file(lines=lines)}), "e.csv")["patient_name"] == ("50 Cent",)


@pytest.mark.parametrize("without", ["Device", "Sample Rate", "Unit"])
def test_other_tables_do_not_match(without: str) -> None:
    lines = [line for line in APPLE_LINES if not line.startswith(without)]
    assert detect_format(MemorySource({"e.csv": apple_file(lines=lines)}), "e.csv") is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "two", "3"], "expected one number per line"),
        (["1.5", "2,5", "3"], "expected one number per line"),
        (["1", "nan"], "over 1000 mV|something else"),
        (["1", "2000000"], "over 1000 mV"),
        ([], "holds no sample"),
    ],
)
def test_invalid_numbers_are_rejected(values: list[str], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(apple_file(values))
