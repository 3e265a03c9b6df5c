"""What answers say of patients: ages no finer than a file should tell them, and opaque handles instead of ids."""

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

INFANT: Final = 2.0
"""Years below which an age is told in months."""
ROUNDED: Final = 1e-5
"""Months: 7/12 of a year is seven months, though an index has it in single precision."""
MOST_HANDLES: Final = 20_000
"""Handles that are remembered; the longest unused are forgotten."""
HEX_SIGNS: Final = 20


def shown_age(age: float | None) -> float | None:
    """Completed years, below two completed months, as ``age_at`` has it; everyone above 90 is 90: few are that old."""
    if age is None:
        return None
    if age < INFANT:
        return math.floor(age * 12 + ROUNDED) / 12
    return float(math.floor(min(age, POOLED_AGE)))


def age_band(first: float | None, last: float | None) -> tuple[float, float] | None:
    """The ages of which ``shown_age`` shows ``first`` to ``last`` years; None: any.

    Parts of a year are left out: by asking for ever narrower bands, one could learn an exact age.
    """
    if first is None and last is None:
        return None
    if first is not None and last is not None and first > last:
        raise OptionError(f"an age band goes from the younger to the older, not from {first:g} to {last:g}")
    youngest = min(float(math.floor(first or 0)), POOLED_AGE)
    return youngest, math.inf if last is None or last >= POOLED_AGE else math.nextafter(math.floor(last) + 1, 0)


class Handles:
    """Record ids by handle."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._records: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def give(self, record_id: str) -> str:
        """The handle of a record; the same for the same record."""
        digest = hmac.new(self._key, record_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
        handle = f"p-{digest[:HEX_SIGNS]}"
        with self._lock:
            self._records[handle] = record_id
            self._records.move_to_end(handle)
            if len(self._records) > MOST_HANDLES:
                self._records.popitem(last=False)
        return handle

    def record(self, handle: str) -> str | None:
        """The record of a handle that was given out."""
        with self._lock:
            if handle in self._records:
                self._records.move_to_end(handle)
            return self._records.get(handle)
