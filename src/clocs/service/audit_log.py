"""Who was looked for: an append-only list of searches, a JSON object a line, on disk before the answer leaves."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clocs.core.errors import StoreError


class AuditError(StoreError):
    """A search cannot be written down."""


class AuditLog:
    """An open log. Each line is one write to a file opened for appending, so lines of several services never mix."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AuditError(f"searches cannot be written down in {path}: {error.strerror}") from error

    def write(self, **fields: Any) -> None:
        """Add a line; it is on disk when this returns. No line, no search: an error is the caller's to pass on."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields}).encode() + b"\n"
        try:
            if os.write(self._handle, line) != len(line):
                raise AuditError("a search could only be written down in part")
            os.fsync(self._handle)
        except OSError as error:
            raise AuditError(f"a search could not be written down: {error.strerror}") from error

    def close(self) -> None:
        """After the last search."""
        os.close(self._handle)
