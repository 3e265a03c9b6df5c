"""Patterns of texts and column names that may identify a person."""

from __future__ import annotations

import re
from typing import Final

from clocs.core.privacy.pseudonyms import PSEUDONYM

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "name": re.compile(r"\b[^\W\d_a-zà-ÿ](?:[^\W\d_]|['’-])+, ?[^\W\d_a-zà-ÿ](?![\d_])|[^\W\d_]{2,}\^[^\W\d_]*|"
                       r"\b(Dr|Mr|Mrs|Ms|Prof|Herr|Frau)\b\.? ?[^\W\d_a-zà-ÿ]\w+"),
    "e-mail": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w"),
    "date": re.compile(
        r"(?<!\d)(19|20)\d\d([-/._]?)(0[1-9]|1[0-2])\2(0[1-9]|[12]\d|3[01])(?!\d{1,5}(\D|$))|"
        r"(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.](19|20)?\d\d(?!\d)|"
        rf"(?i:(?<!\d)\d{{1,2}}[- .]?({_MONTHS})[a-z]*[- .,]{{1,2}}\d{{2,4}}(?!\d))"
    ),
    "telephone": re.compile(r"(?<![\w.])(\+|00)\d[\d ()/-]{6,}\d|\(\d{2,5}\) ?\d[\d -]{4,}\d|"
                            r"(?<!\d)\d{3}[- ]\d{3}[- ]\d{4}(?!\d)"),
    "long number": re.compile(r"(?<!\d)\d{6,}(?!\d)"),
}  # fmt: skip
"""Patterns of identities. The first pattern that matches gives the kind of a hit."""
_PSEUDONYM_OR_HASH = re.compile(rf"(?<![0-9a-z])({PSEUDONYM.pattern}|[0-9a-f]{{64}})(?![0-9a-z])")
_NUMBER = re.compile(r"[+-]?(\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SHORT_DIGITS = 5
"""Maximum number of digits before the point of a number that matches no pattern."""
_DATE_PART = re.compile(
    r"(19|20)\d\d[-/.](0[1-9]|1[0-2])|(0[1-9]|1[0-2])[-/.](19|20)\d\d|\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[ap]m)?",
    re.IGNORECASE,
)
"""A month or a time of day, which are no dates but belong to one."""
_PERSON_WORDS: Final = frozenset(
    (
        *("name", "names", "surname", "lastname", "firstname", "forename", "birth", "birthday", "birthdate", "dob"),
        *("address", "street", "zip", "zipcode", "postcode", "phone", "telephone", "mobile", "fax", "mail", "email"),
        *("ssn", "mrn", "physician", "doctor", "operator", "technician", "nurse", "serial", "accession", "insurance"),
        *("comment", "comments", "remark", "remarks", "date", "dates", "timestamp", "datetime"),
    )
)
"""Words of a column name that stand for a person, a day or typed text."""
_NUMBERED_WORDS: Final = frozenset(
    (
        *("patient", "pat", "subject", "person", "case", "order", "visit", "study", "exam", "encounter", "admission"),
        *("ecg", "record", "recording", "file"),
    )
)
"""Words of a column name that identify a person together with a word for a number."""
_NUMBER_WORDS: Final = frozenset(("id", "ids", "no", "nr", "number", "uid"))
_ORDER_WORDS: Final = frozenset(("order", "rank", "index"))
"""Last words of a column name that make a date harmless: ``date_order`` has no date."""


def mask(text: str) -> str:
    """Mask a text except for its first two characters."""
    return f"{text[:2]}{'*' * min(len(text) - 2, 6)} ({len(text)} characters)" if len(text) > 2 else "**"


def find_identity(text: str) -> tuple[str, str] | None:
    """Return the kind of the first pattern that a text matches, with the match; None without one."""
    plain = _PSEUDONYM_OR_HASH.sub(" ", text)
    for kind, pattern in PATTERNS.items():
        if match := pattern.search(plain):
            return kind, match.group()
    return None


def find_identity_in_value(value: str) -> tuple[str, str] | None:
    """Return the pattern that a value of an extra column matches, see ``find_identity``.

    Decimals of a number are no long number. A month and a time of day count as a date.
    """
    number = _NUMBER.fullmatch(value)
    if number:
        return None if len(number[1]) <= _SHORT_DIGITS else find_identity(number[1])
    return ("date", value) if _DATE_PART.fullmatch(value) else find_identity(value)


def is_identifying_name(column: str) -> bool:
    """Return whether the name of a column says that its values may identify a person."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", column).lower())
    found = set(words)
    if words and words[-1] in _ORDER_WORDS:
        found -= {"date", "dates", "timestamp", "datetime", "order"}
    is_number = bool(found & _NUMBER_WORDS) and (bool(found & _NUMBERED_WORDS) or len(words) == 1)
    return bool(found & _PERSON_WORDS) or is_number or words == ["pid"]
