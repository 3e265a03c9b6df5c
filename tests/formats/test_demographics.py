"""Ages, sexes and dates as files and tables write them."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.formats.demographics import (
    age_at,
    parse_acquired,
    parse_age,
    parse_compact_date,
    parse_compact_datetime,
    parse_date,
    parse_datetime,
    parse_sex,
)


@pytest.mark.parametrize(
    ("text", "sex"),
    [
        ("M", "male"),
        (" Male", "male"),
        ("FEMALE", "female"),
        ("f", "female"),
        ("UN", None),
        ("", None),
        ("Mixed", None),
        ("mujer", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_parse_sex(text: object, sex: str | None) -> None:
    assert parse_sex(text) == sex


@pytest.mark.parametrize(
    ("text", "unit", "age"),
    [
        ("58", "YEARS", 58.0),
        ("58.5", "a", 58.5),
        ("6", "MONTHS", 0.5),
        ("26", "wk", 0.498),
        ("100", "days", 0.274),
        ("12", "HOURS", 0.00137),
        ("58", "parsecs", None),
        ("58", "", None),
        ("", "years", None),
        ("-1", "years", None),
        ("300", "years", None),
        ("nan", "years", None),
        (58, "years", 58.0),
        (None, "years", None),
        (float("nan"), "years", None),
    ],
)
def test_parse_age_with_unit(text: object, unit: str, age: float | None) -> None:
    assert parse_age(text, unit) == (None if age is None else pytest.approx(age, rel=2e-3))


@pytest.mark.parametrize(
    ("text", "age"),
    [("56.0", 56.0), ("51\n", 51.0), (0, 0.0), (150, 150.0), (151, None), ("-1", None), ("", None), (None, None)],
)
def test_parse_age_in_years(text: object, age: float | None) -> None:
    assert parse_age(text) == age


@given(st.one_of(st.none(), st.floats(), st.integers(), st.text()))
def test_any_text_is_a_valid_age_or_none(text: object) -> None:
    age = parse_age(text)
    assert age is None or 0 <= age <= 150


@pytest.mark.parametrize(
    ("text", "sex"),
    [("F", "female"), ("female", "female"), (" MALE\n", "male"), ("M", "male"), ("", None), (None, None), ("x", None)],
)
def test_parse_sex_of_a_table(text: object, sex: str | None) -> None:
    assert parse_sex(text) == sex


@pytest.mark.parametrize("text", ["mujer", "missing", "Mrs", "femme?", "masked", float("nan")])
def test_other_texts_are_not_a_sex(text: object) -> None:
    assert parse_sex(text) is None


@given(st.dates(date(1900, 1, 1), date(2020, 1, 1)), st.integers(0, 40_000))
def test_age_from_dates_counts_birthdays(birth: date, days: int) -> None:
    """Compare with a slow count of past birthdays, where 29 February is 1 March in common years."""
    acquired = birth + timedelta(days=days)
    age = age_at(birth, acquired)
    assert age is not None
    birthdays = 0
    while (birth.year + birthdays + 1, birth.month, birth.day) <= (acquired.year, acquired.month, acquired.day):
        birthdays += 1
    assert int(age) == birthdays
    if age >= 2:
        assert age == birthdays
    else:
        assert abs(age - days / 365.25) < 0.1
        assert round(age * 12, 9) == round(age * 12)


def test_age_needs_both_dates_in_order() -> None:
    assert age_at(None, date(2020, 1, 1)) is None
    assert age_at(date(2020, 1, 1), None) is None
    assert age_at(date(2020, 1, 2), date(2020, 1, 1)) is None
    assert age_at(date(1800, 1, 1), date(2020, 1, 1)) is None


@given(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), st.sampled_from(["", "+0100", "-0500", "Z"]))
def test_compact_datetime_is_parsed_by_its_length(when: datetime, zone: str) -> None:
    """Compare with ``isoformat`` without punctuation. All months have two digits."""
    written = when.isoformat(timespec="microseconds").translate(str.maketrans("", "", "-:T"))
    assert parse_compact_datetime(written + zone) == when
    assert parse_compact_datetime(written.replace(".", "")) == when, "as Schiller has it"
    assert parse_compact_datetime(written[:14] + zone) == when.replace(microsecond=0)
    assert parse_compact_datetime(written[:12] + zone) == when.replace(second=0, microsecond=0)
    assert parse_compact_datetime(written[:8]) == datetime(when.year, when.month, when.day)
    assert parse_compact_date(written + zone) == parse_compact_date(f" {written[:8]} ") == when.date()


@pytest.mark.parametrize("text", ["", "2002", "2002112", "200211229", "20021322", "2002-11-22", "now", "2" * 1000])
def test_other_digits_are_not_a_datetime(text: str) -> None:
    assert parse_compact_datetime(text) is None


@given(st.datetimes(datetime(1900, 1, 1), datetime(2299, 12, 31)), st.sampled_from(["", "+01:00", "Z"]))
def test_times_of_recordings_are_those_of_the_device_in_whole_seconds(when: datetime, zone: str) -> None:
    for separator in ("T", " "):
        assert parse_acquired(when.isoformat(separator) + zone) == when.replace(microsecond=0)
    assert parse_acquired(f" {when.date().isoformat()} ") == datetime(when.year, when.month, when.day)


@pytest.mark.parametrize("text", ["", "Tuesday", "2020", "1899-12-31 10:11:12", "2300-01-01", "2020-02-30", "24:00"])
def test_other_texts_are_no_time_of_a_recording(text: str) -> None:
    assert parse_acquired(text) is None


def test_first_matching_pattern_is_used() -> None:
    patterns = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
    assert parse_datetime("2020-02-29 10:11:12", patterns) == datetime(2020, 2, 29, 10, 11, 12)
    assert parse_date(" 2020-02-29 ", patterns) == date(2020, 2, 29)
    for text in ("", "2020-02-30", "yesterday", "2" * 1000):
        assert parse_datetime(text, patterns) is None
        assert parse_date(text, patterns) is None
