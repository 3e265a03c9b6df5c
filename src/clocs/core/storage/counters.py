"""Counters of a process: requests to buckets, bytes, retries and what the cache of objects did."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

COUNTERS: Final = {
    "bucket_requests": "Requests to object stores, with retries",
    "bucket_retries": "Requests to object stores that were sent again after an error",
    "bucket_bytes_read": "Bytes read from object stores",
    "bucket_bytes_written": "Bytes written to object stores",
    "cache_hits": "Objects found in the cache of this machine",
    "cache_misses": "Objects that had to be downloaded",
    "cache_evictions": "Objects removed from the cache of this machine",
    "failed_checksums": "Downloads and chunks that did not match their checksum",
}
"""Name and meaning of every counter."""
_values: Counter[str] = Counter()
_lock = threading.Lock()


def count(name: str, amount: int = 1) -> None:
    """Add to a counter of this process.

    Args:
        name: A name in ``COUNTERS``.
        amount: Number to add.
    """
    if name not in COUNTERS:
        raise KeyError(name)
    with _lock:
        _values[name] += amount


def counts() -> dict[str, int]:
    """Return all counters of this process by name, in the order of ``COUNTERS``.

    Example:
        >>> from clocs.core.storage.counters import counts
        >>> "bucket_requests" in counts()
        True
    """
    with _lock:
        return {name: _values[name] for name in COUNTERS}


def describe_counts(before: dict[str, int]) -> str:
    """Return the counters that are not 0 as text for a log line; empty if there are none.

    Args:
        before: Earlier counts, which are subtracted.
    """
    since = {name: value - before[name] for name, value in counts().items()}
    return ", ".join(f"{name}={value}" for name, value in since.items() if value)
