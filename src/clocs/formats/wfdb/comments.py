"""What the comments of a WFDB header say: ages, sexes and diagnoses as PhysioNet writes them, and what people typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clocs.formats.demographics import Sex, age_of, sex_of
from clocs.signals.leads import COMBINATIONS, canonical

_CODE = re.compile(r"[\w.+/-]{1,40}")
"""Of a diagnosis. What has blanks may be anything, a name too."""
_DERIVED = "derived from i and ii"


@dataclass(frozen=True)
class Said:
    """What is known of a recording from comments."""

    age: float | None
    sex: Sex | None
    codes: tuple[str, ...]
    """Of all diagnoses, each once."""
    no_codes: int
    """Entries among the diagnoses that are none."""
    derived: tuple[str, ...]
    """Leads that are said to be computed from I and II."""


def said_by(comments: tuple[str, ...]) -> Said:
    """Take comments apart."""
    known = dict(_fields(comments))
    codes, others = _codes(comments)
    derived = tuple(known.get(_DERIVED, "").split(","))
    return Said(age_of(known.get("age", "")), sex_of(known.get("sex", "")), codes, others, derived)


def typed_in(comments: tuple[str, ...]) -> list[str]:
    """What comments say besides an age, a sex, codes of diagnoses and computed leads."""
    return [comment.partition(":")[2].strip() or comment for comment in comments if _typed(comment)]


def _codes(comments: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    written = [value.split(",") for key, value in _fields(comments) if key == "dx"]
    entries = [entry.strip() for entries in written for entry in entries if entry.strip()]
    codes = [entry for entry in entries if _CODE.fullmatch(entry)]
    return tuple(dict.fromkeys(codes)), len(entries) - len(codes)


def _fields(comments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for comment in comments:
        key, found, value = comment.partition(":")
        if found:
            yield key.strip(" <>").lower(), value.strip()


def _typed(comment: str) -> bool:
    key, value = next(_fields((comment,)), ("", comment))
    if key == "dx":
        return _codes((comment,))[1] > 0
    if key == _DERIVED:
        return not {canonical(lead) for lead in value.split(",")} <= set(COMBINATIONS)
    known = {"age": r"\d{0,3}(\.\d*)?|nan|unknown", "sex": r"f|m|female|male|nan|unknown"}
    return key not in known or not re.fullmatch(known[key], value.lower())
