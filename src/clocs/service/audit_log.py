"""Record who was looked for: an append-only list of searches, a JSON line each, on disk before the answer leaves."""

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
    A file that is renamed or deleted takes no more lines: searches are refused until the log is opened again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._handle, self._cut_off = _opened(path)

    def write(self, **fields: Any) -> None:
        """Add a line, and return when it is on disk in the file that has the log's name.

        Raises:
            AuditError: If there is no such line. Then there must be no answer to the search either.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields}).encode() + b"\n"
        try:
            with self._lock:
                self._check_name()
                self._append(line)
                os.fsync(self._handle)
                self._check_name()
        except OSError as error:
            raise AuditError(f"a search could not be written down: {error.strerror}") from error

    def reopen(self) -> None:
        """Open the file that has the log's name now, and make it where there is none.

        Raises:
            AuditError: If it cannot be opened. The log stays as it was.
        """
        with self._lock:
            before = self._handle
            self._handle, self._cut_off = _opened(self._path)
            os.close(before)

    def close(self) -> None:
        """Close the file after the last search."""
        os.close(self._handle)

    def _check_name(self) -> None:
        """Refuse a file that another took the place of, or that has no name: its lines would be lost."""
        own = os.fstat(self._handle)
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            named = None
        if named is None or not os.path.samestat(own, named):
            raise AuditError(
                "a search could not be written down: the audit log was renamed or deleted. Who runs the service has it "
                "opened again by the signal SIGHUP."
            )

    def _append(self, line: bytes) -> None:
        line = b"\n" + line if self._cut_off else line
        written = os.write(self._handle, line)
        self._cut_off = not line[:written].endswith(b"\n")
        if written != len(line):
            raise AuditError("a search could only be written down in part")


def _opened(path: Path) -> tuple[int, bool]:
    """Return the open file, and whether it ends within a line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(handle).st_size
        return handle, size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    except OSError as error:
        raise AuditError(f"searches cannot be written down in {path}: {error.strerror}") from error
