"""Age and sex from the many ways in which files and tables write them; for formats and datasets to share."""

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
_DIGITS: Final = re.compile(r"(?P<plain>\d{14}(?=(\.?(?P<fraction>\d+))?)|(\d{12}|\d{8})(?!\d))", re.ASCII)
_PATTERN_BY_LENGTH: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


@dataclass(frozen=True)
class Demographics:
    """What a recording may say about who was recorded."""

    age: float | None = None
    """Years."""
    sex: Sex | None = None


def parse_sex(value: object) -> Sex | None:
    """``M``, ``Male``, ``MALE`` and their counterparts; None for anything else: other words are not guessed at."""
    plain = str(value).strip().lower()
    return "male" if plain in ("m", "male") else "female" if plain in ("f", "female") else None


def parse_age(value: object, unit: str = "years") -> float | None:
    """Years, from a number in years, months, weeks, days or hours (or their UCUM codes); None where it is none."""
    factor = _PER_YEAR.get(unit.strip().lower())
    try:
        age = float(str(value)) * factor if factor else None
    except ValueError:
        return None
    return age if age is not None and 0 <= age <= MAX_AGE else None


def age_at(birth: date | None, acquired: date | None) -> float | None:
    """Completed years, and below two completed months: finer, an age would give away the day of birth."""
    if birth is None or acquired is None:
        return None
    months = (acquired.year - birth.year) * 12 + acquired.month - birth.month - (acquired.day < birth.day)
    years = float(months // 12) if months >= 24 else months / 12
    return years if 0 <= years <= MAX_AGE else None


def parse_datetime(text: str, patterns: Sequence[str]) -> datetime | None:
    """A date, perhaps with its time, in the first of ``strptime``'s patterns that fits."""
    if len(text) > _MAX_DATE_LENGTH:
        return None
    for pattern in patterns:
        try:
            return datetime.strptime(text.strip(), pattern)
        except ValueError:
            continue
    return None


def parse_compact_datetime(text: str) -> datetime | None:
    """``20021122``, ``200211220910`` or ``20021122091000.5``, as HL7 and DICOM write it; a zone behind it is left out.

    By the number of digits: ``strptime`` may take ``1122`` for a month, a day, an hour and a minute.
    """
    found = _DIGITS.match(text.strip())
    if found is None:
        return None
    plain, fraction = found["plain"], found["fraction"] or ""
    parsed = parse_datetime(plain, [_PATTERN_BY_LENGTH[len(plain)]])
    return parsed and parsed.replace(microsecond=int(f"{fraction[:6]:0<6}"))


def parse_date(text: str, patterns: Sequence[str]) -> date | None:
    """Only the date of ``parse_datetime``."""
    found = parse_datetime(text, patterns)
    return found.date() if found else None


def parse_compact_date(text: str) -> date | None:
    """Only the date of ``parse_compact_datetime``, whatever follows it."""
    found = parse_compact_datetime(text.strip()[:8])
    return found.date() if found else None
