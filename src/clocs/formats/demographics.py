"""Parse age, sex and dates as files and tables write them. Shared by formats and datasets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal

Sex = Literal["female", "male"]

MAX_AGE: Final = 150.0
_YEARS: Final = {"years": 1.0, "a": 1.0, "months": 1 / 12, "mo": 1 / 12, "weeks": 7 / 365.25, "wk": 7 / 365.25}
_DAYS: Final = {"days": 1 / 365.25, "d": 1 / 365.25, "hours": 1 / 8766, "h": 1 / 8766}
_PER_YEAR: Final = _YEARS | _DAYS
_MAX_DATE_LENGTH: Final = 64
_YEARS_OF_ECGS: Final = range(1900, 2300)
"""Years of recordings. Some datasets shift dates to later than 2100."""
_DIGITS: Final = re.compile(r"(?P<plain>\d{14}(?=(\.?(?P<fraction>\d+))?)|(\d{12}|\d{8})(?!\d))", re.ASCII)


@dataclass(frozen=True)
class Demographics:
    """Age and sex of a patient."""

    age: float | None = None
    """Age in years."""
    sex: Sex | None = None
    """Sex, or None if it is not stated."""


def parse_sex(value: object) -> Sex | None:
    """Parse ``m``, ``male``, ``f`` and ``female`` in any case. Return None for every other value."""
    plain = str(value).strip().lower()
    return "male" if plain in ("m", "male") else "female" if plain in ("f", "female") else None


def parse_age(value: object, unit: str = "years") -> float | None:
    """Return an age in years.

    Args:
        value: Number, or text of a number.
        unit: ``years``, ``months``, ``weeks``, ``days``, ``hours``, or their UCUM codes.

    Returns:
        The age in years, or None if it is not a number from 0 to 150 or the unit is unknown.
    """
    factor = _PER_YEAR.get(unit.strip().lower())
    try:
        age = float(str(value)) * factor if factor else None
    except ValueError:
        return None
    return age if age is not None and 0 <= age <= MAX_AGE else None


def age_at(birth: date | None, acquired: date | None) -> float | None:
    """Return the age in completed years, or in completed months below two years.

    A more precise age would reveal the date of birth.
    """
    if birth is None or acquired is None:
        return None
    months = (acquired.year - birth.year) * 12 + acquired.month - birth.month - (acquired.day < birth.day)
    years = float(months // 12) if months >= 24 else months / 12
    return years if 0 <= years <= MAX_AGE else None


def parse_datetime(text: str, patterns: Sequence[str]) -> datetime | None:
    """Parse a date, with or without a time, by the first ``strptime`` pattern that matches."""
    if len(text) > _MAX_DATE_LENGTH:
        return None
    for pattern in patterns:
        try:
            return datetime.strptime(text.strip(), pattern)
        except ValueError:
            continue
    return None


def parse_acquired(text: str) -> datetime | None:
    """Parse the time of a recording in ISO 8601, such as ``2020-02-29 08:30:00``.

    Returns:
        The time in whole seconds by the clock of the device: a time zone is dropped. A date alone is midnight. None if
        the text is no such time.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found.replace(tzinfo=None, microsecond=0) if found.year in _YEARS_OF_ECGS else None


def parse_compact_datetime(text: str) -> datetime | None:
    """Parse ``20021122``, ``200211220910`` or ``20021122091000.5``, as HL7 and DICOM write it, without a time zone."""
    found = _DIGITS.match(text.strip())
    if found is None:
        return None
    digits, fraction = found["plain"].ljust(14, "0"), found["fraction"] or ""
    month, day, hour, minute, second = (int(digits[start : start + 2]) for start in range(4, 14, 2))
    try:
        return datetime(int(digits[:4]), month, day, hour, minute, second, int(f"{fraction[:6]:0<6}"))
    except ValueError:
        return None


def parse_date(text: str, patterns: Sequence[str]) -> date | None:
    """Parse the date of a text with ``parse_datetime``."""
    found = parse_datetime(text, patterns)
    return found.date() if found else None


def parse_compact_date(text: str) -> date | None:
    """Parse the first eight digits of a text as a date, whatever follows them."""
    found = parse_compact_datetime(text.strip()[:8])
    return found.date() if found else None
