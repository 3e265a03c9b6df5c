"""Protection of patients in responses: coarse ages, and opaque handles instead of record ids."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import threading
from collections import OrderedDict
from typing import Final

from clocs.core.errors import OptionError
from clocs.datasets.redaction import POOLED_AGE

INFANT_YEARS: Final = 2.0
"""Age in years below which ages are given in months."""
MONTH_TOLERANCE: Final = 1e-5
"""Tolerance in months for ages in single precision: 7/12 of a year is seven months."""
MAX_HANDLES: Final = 20_000
"""Maximum number of handles; the least recently used are forgotten."""
HANDLE_DIGITS: Final = 20


def coarse_age(age: float | None) -> float | None:
    """Return an age in completed years, in completed months below two years, and at most 90.

    Ages above 90 are pooled because few people reach them.
    """
    if age is None:
        return None
    if age < INFANT_YEARS:
        return math.floor(age * 12 + MONTH_TOLERANCE) / 12
    return float(math.floor(min(age, POOLED_AGE)))


def age_range(first: float | None, last: float | None) -> tuple[float, float] | None:
    """Return the range of exact ages that :func:`coarse_age` maps to ``first`` to ``last``; None for any age.

    Fractions of a year are dropped. Otherwise ever narrower ranges would reveal an exact age.
    """
    if first is None and last is None:
        return None
    if first is not None and last is not None and first > last:
        raise OptionError(f"Expected an age range in ascending order, got {first:g} to {last:g}.")
    youngest = min(float(math.floor(first or 0)), POOLED_AGE)
    return youngest, math.inf if last is None or last >= POOLED_AGE else math.nextafter(math.floor(last) + 1, 0)


class Handles:
    """Map from opaque handles to record ids.

    Args:
        prefix: First letter of the handles.
    """

    def __init__(self, prefix: str = "p") -> None:
        self._prefix = prefix
        self._key = secrets.token_bytes(32)
        self._records: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def create(self, record_id: str) -> str:
        """Return the handle of a record; the same record always has the same handle."""
        digest = hmac.new(self._key, record_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        handle = f"{self._prefix}-{digest[:HANDLE_DIGITS]}"
        with self._lock:
            self._records[handle] = record_id
            self._records.move_to_end(handle)
            if len(self._records) > MAX_HANDLES:
                self._records.popitem(last=False)
        return handle

    def record(self, handle: str) -> str | None:
        """Return the record of a handle, or None if the handle is unknown."""
        with self._lock:
            if handle in self._records:
                self._records.move_to_end(handle)
            return self._records.get(handle)
