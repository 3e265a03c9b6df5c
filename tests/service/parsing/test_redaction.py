"""Messages are redacted of file content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.service.parsing.redaction import REDACTED, redact

OWN = [
    "holds no sample",
    *(f"lead {name} holds a calibration pulse and no ECG" for name in ("aVR", "V1", "V7", "V3R")),
    "not a format clocs knows (wfdb, chapman-csv, irhythm)",
    "its leads differ in length, 4999 to 5000 samples",
    "section 3 does not match its checksum; the file is damaged",
    "a rate of 0.5 Hz is out of range",
    "the record line is not 'name signals rate samples': 2",
    "WFDB signal format 80 is not supported; supported: 8, 16, 24",
]


@pytest.mark.parametrize("message", OWN)
def test_words_of_the_package_are_kept(message: str) -> None:
    assert redact(message) == message


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("signal line 'Winterbottom, Ada 16' names no format", f"signal line {REDACTED} names no format"),
        (
            "signal file '4711' lies outside the record's folder",
            f"signal file {REDACTED} lies outside the record's folder",
        ),
        (
            "gain is no number: could not convert string to float: 'O'Brien 12'",
            f"gain is no number: could not convert string to float: {REDACTED}",
        ),
        ("lead Winterbottom has no samples", f"lead {REDACTED} has no samples"),
        ("a rate of 19450312 Hz is out of range", f"a rate of {REDACTED} Hz is out of range"),
        ("a rate of 1.94503e+07 Hz is out of range", f"a rate of {REDACTED} Hz is out of range"),
        ("born 1945-03-12, 12.03.1945 or 12/03/1945", f"{REDACTED} {REDACTED}, {REDACTED} or {REDACTED}"),
        ("claims 99999999 samples", f"claims {REDACTED} samples"),
        ("the file of Müller-Lüdenscheidt is damaged", f"the file of {REDACTED} is damaged"),
        ("lead <script>alert(1)</script> has no samples", f"lead <{REDACTED}> has no samples"),
    ],
)
def test_words_of_the_file_are_redacted(message: str, left: str) -> None:
    assert redact(message) == left


def test_file_names_become_the_upload() -> None:
    assert redact("mrs-smith.hea: damaged in its archive", "mrs-smith.hea") == "the upload: damaged in its archive"


@pytest.mark.parametrize("name", ["1", "e", "ecg", "sampling_rate", "Hz", "a.csv"])
def test_short_and_ordinary_names_leave_the_words_whole(name: str) -> None:
    """``e`` stands in many words, ``sampling_rate`` is what the message is about, ``1`` is a number of it."""
    message = "a rate of -1 Hz is out of range; the ecg is damaged, tera.csv too"
    assert redact(message, name) == redact(message)
    assert redact(f"{message}: e_x.csv", "e_x.csv") == f"{redact(message)}: the upload"


WORDS = st.text(st.characters(categories=["L"]), min_size=5, max_size=12)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_unknown_words_are_redacted(words: list[str]) -> None:
    """Words with a sign that is nowhere in the package cannot be the package's."""
    planted = [f"{word}ẞq{word}" for word in words]
    said = redact(f"lead {' '.join(planted)} has no samples '{planted[0]}'")
    assert not any(word in said for word in planted)


@given(st.integers(min_value=100_000))
def test_long_numbers_are_redacted(number: int) -> None:
    assert str(number) not in redact(f"holds {number} samples, from {number}: '{number}'")


def test_messages_are_bounded() -> None:
    assert len(redact("sample " * 10_000)) <= 600
