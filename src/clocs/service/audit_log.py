"""Who was looked for: an append-only list of searches, a JSON object a line, on disk before the answer leaves."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clocs.core.errors import StoreError


class AuditError(StoreError):
    """A search cannot be written down."""


class AuditLog:
    """An open log. Each line is one write to a file opened for appending, so lines of several services never mix.

    A line that a full disk or a crash cut off is of a search without an answer; the next one does not continue it.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._cut_off = _ends_within_a_line(self._handle)
        except OSError as error:
            raise AuditError(f"searches cannot be written down in {path}: {error.strerror}") from error
        self._lock = threading.Lock()

    def write(self, **fields: Any) -> None:
        """Add a line; it is on disk when this returns. No line, no search: an error is the caller's to pass on."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields}).encode() + b"\n"
        try:
            with self._lock:
                self._append(line)
            os.fsync(self._handle)
        except OSError as error:
            raise AuditError(f"a search could not be written down: {error.strerror}") from error

    def _append(self, line: bytes) -> None:
        line = b"\n" + line if self._cut_off else line
        written = os.write(self._handle, line)
        self._cut_off = not line[:written].endswith(b"\n")
        if written != len(line):
            raise AuditError("a search could only be written down in part")

    def close(self) -> None:
        """After the last search."""
        os.close(self._handle)


def _ends_within_a_line(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"
