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
    disk or a crash belongs to a search without a response. After the file is renamed or deleted, searches are refused
    until the log is reopened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._handle, self._ends_within_line = _open_log(path)

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
            raise AuditError(f"The search could not be logged: {error.strerror}.") from error

    def reopen(self) -> None:
        """Open the file under the log's name, and create it if necessary.

        Raises:
            AuditError: It cannot be opened. The log stays unchanged.
        """
        with self._lock:
            before = self._handle
            self._handle, self._ends_within_line = _open_log(self._path)
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
                "The search could not be logged: the audit log was renamed or deleted. The operator of the service can "
                "reopen it with the signal SIGHUP."
            )

    def _append(self, line: bytes) -> None:
        line = b"\n" + line if self._ends_within_line else line
        written = os.write(self._handle, line)
        self._ends_within_line = not line[:written].endswith(b"\n")
        if written != len(line):
            raise AuditError("The search could only be logged in part.")


def _open_log(path: Path) -> tuple[int, bool]:
    """Return the open file, and True if it ends within a line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(handle).st_size
        return handle, size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    except OSError as error:
        raise AuditError(f"The audit log {path} cannot be opened: {error.strerror}.") from error
