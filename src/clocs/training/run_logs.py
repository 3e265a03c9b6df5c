"""The logs of a run: JSON lines, appended as it goes, that a hash covers.

A checkpoint states how many lines belong to it, and a finished run how many there are, each with bytes and SHA-256.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError
from clocs.core.files import append_bytes, sync_file, truncate_file, write_bytes

Stated = dict[str, Any]
"""Lines, bytes and SHA-256 of the first part of a log, or of all of it."""
Line = dict[str, Any]


class RunLog:
    """A file of JSON lines that one process appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._adopt(b"")

    def append(self, **values: Any) -> None:
        """Write one line; it outlasts a power loss only after :meth:`sync`."""
        line = json.dumps(values).encode() + b"\n"
        append_bytes(self.path, line)
        self._count(line)

    def sync(self) -> Stated:
        """Force all lines to the disk and state them."""
        if self._bytes:
            sync_file(self.path)
        return {"lines": self._lines, "bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def cut(self, stated: Stated | None) -> None:
        """Drop the lines after those that are stated; None drops all. They will be written again.

        Raises:
            IntegrityError: The stated lines are damaged.
        """
        kept = checked_part(self.path, stated) if stated else b""
        if self.path.exists():
            truncate_file(self.path, len(kept))
        self._adopt(kept)

    def mend(self) -> None:
        """Drop lines that a kill, a full disk or a power loss has torn."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        kept = b"".join(line + b"\n" for line in raw.split(b"\n")[:-1] if _values(line) is not None)
        if kept != raw:
            write_bytes(self.path, kept)
        self._adopt(kept)

    def _adopt(self, content: bytes) -> None:
        """Take the present content as what was appended so far."""
        self._lines = self._bytes = 0
        self._digest = hashlib.sha256()
        self._count(content)

    def _count(self, content: bytes) -> None:
        self._lines += content.count(b"\n")
        self._bytes += len(content)
        self._digest.update(content)


def checked_part(path: Path, stated: Stated) -> bytes:
    """Return the stated first part of a log, checked by its hash."""
    if not stated["bytes"]:
        return b""
    try:
        with open(path, "rb") as file:
            part = file.read(stated["bytes"])
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if len(part) < stated["bytes"]:
        raise IntegrityError(f"{path}: {len(part)} bytes, of which {stated['bytes']} were written")
    if hashlib.sha256(part).hexdigest() != stated["sha256"]:
        raise IntegrityError(f"{path}: its first {stated['lines']} lines differ from their hash")
    return part


def checked_log(path: Path, stated: Stated | None) -> bytes:
    """Return all of a log, checked where its hash is stated; empty where there is no log."""
    if stated is None:
        return path.read_bytes() if path.exists() else b""
    part = checked_part(path, stated)
    if path.stat().st_size != len(part):
        raise IntegrityError(f"{path}: {path.stat().st_size} bytes, of which {len(part)} were written")
    return part


def whole_lines(raw: bytes) -> list[Line]:
    """Return the lines that are whole, leaving out those that a kill or a full disk has torn."""
    return [values for values in _parsed(raw) if values is not None]


def every_line(raw: bytes, path: Path) -> list[Line]:
    """Return all lines; without one, curves would have a gap that nobody sees.

    Raises:
        IntegrityError: A line is damaged.
    """
    found = []
    for number, values in enumerate(_parsed(raw), 1):
        if values is None:
            raise IntegrityError(f"{path}: line {number} cannot be read; its bytes have changed")
        found.append(values)
    return found


def _parsed(raw: bytes) -> list[Line | None]:
    """Parse each line, None where it is damaged. The last one may still be being written: it is left out."""
    return [_values(line) for line in raw.split(b"\n")[:-1]]


def _values(line: bytes) -> Line | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
