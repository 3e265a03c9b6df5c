"""Waiting for conditions without time limits."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS = 200.0
"""Nothing that works takes so long; only a machine that stands still, or a fault, does."""
LOOK_SECONDS = 0.01


def eventually(holds: Callable[[], bool]) -> None:
    """Return as soon as something holds."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(LOOK_SECONDS)
