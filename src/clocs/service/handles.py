"""Opaque names for neighbours: they say nothing, hold only while the service runs, and only those given out work."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from typing import Final

MOST: Final = 20_000
"""Handles that are remembered; the longest unused are forgotten."""
HEX_SIGNS: Final = 20


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
            if len(self._records) > MOST:
                self._records.popitem(last=False)
        return handle

    def record(self, handle: str) -> str | None:
        """The record of a handle that was given out."""
        with self._lock:
            if handle in self._records:
                self._records.move_to_end(handle)
            return self._records.get(handle)
