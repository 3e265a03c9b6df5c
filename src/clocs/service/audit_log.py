"""Audit log of searches: append-only JSON lines, written to disk before the response is sent."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clocs.core.errors import StoreError


class AuditError(StoreError):
    """A search that cannot be logged."""


class AuditLog:
    """An open audit log.

    Each line is one write in append mode, so lines of several services never mix. A line that was cut off by a full
    disk or a
    crash belongs to a search without a response; the next line starts anew. After the file is renamed or deleted,
    searches
    are refused until the log is reopened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._handle, self._cut_off = _opened(path)

    def write(self, **fields: Any) -> None:
        """Append a line and return when it is on disk.

        Raises:
            AuditError: The line was not written, so the search must not be answered.
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
        """Open the file under the log's name, and create it if necessary.

        Raises:
            AuditError: It cannot be opened. The log stays unchanged.
        """
        with self._lock:
            before = self._handle
            self._handle, self._cut_off = _opened(self._path)
            os.close(before)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _check_name(self) -> None:
        """Raise an error if the file was renamed, deleted or replaced, because its lines would be lost."""
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
    """Return the open file, and True if it ends within a line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(handle).st_size
        return handle, size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    except OSError as error:
        raise AuditError(f"searches cannot be written down in {path}: {error.strerror}") from error
