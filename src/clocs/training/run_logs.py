"""Logs of a run: files of JSON lines, verified by hashes.

A checkpoint stores a digest of the lines up to it, and a finished run a digest of all lines.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError
from clocs.core.storage.files import append_bytes, sync_file, truncate_file, write_bytes

LogDigest = dict[str, Any]
"""Digest of the first part of a log: number of ``lines``, number of ``bytes`` and ``sha256``."""
Line = dict[str, Any]
"""Values of one line of a log."""


class RunLog:
    """File of JSON lines that one process appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reset(b"")

    def append(self, **values: Any) -> None:
        """Append one line. It survives a power loss only after :meth:`sync`."""
        line = json.dumps(values).encode() + b"\n"
        append_bytes(self.path, line)
        self._count(line)

    def sync(self) -> LogDigest:
        """Write all lines to the disk and return their digest."""
        if self._bytes:
            sync_file(self.path)
        return {"lines": self._lines, "bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def truncate(self, digest: LogDigest | None) -> None:
        """Drop the lines after those of a digest; None drops all lines.

        Raises:
            IntegrityError: The lines of the digest are damaged.
        """
        kept = read_checked_part(self.path, digest) if digest else b""
        if self.path.exists():
            truncate_file(self.path, len(kept))
        self._reset(kept)

    def drop_damaged_lines(self) -> None:
        """Drop lines that are incomplete after a kill, a full disk or a power loss."""
        raw = self.path.read_bytes() if self.path.exists() else b""
        kept = b"".join(line + b"\n" for line in raw.split(b"\n")[:-1] if _parse_line(line) is not None)
        if kept != raw:
            write_bytes(self.path, kept)
        self._reset(kept)

    def _reset(self, content: bytes) -> None:
        """Restart the digest with the current content of the file."""
        self._lines = self._bytes = 0
        self._digest = hashlib.sha256()
        self._count(content)

    def _count(self, content: bytes) -> None:
        self._lines += content.count(b"\n")
        self._bytes += len(content)
        self._digest.update(content)


def read_checked_part(path: Path, digest: LogDigest) -> bytes:
    """Return the part of a log that a digest describes.

    Raises:
        IntegrityError: The part is missing or has changed.
    """
    if not digest["bytes"]:
        return b""
    try:
        with open(path, "rb") as file:
            part = file.read(digest["bytes"])
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if len(part) < digest["bytes"]:
        raise IntegrityError(f"{path}: has {len(part)} bytes, but {digest['bytes']} were written")
    if hashlib.sha256(part).hexdigest() != digest["sha256"]:
        raise IntegrityError(f"{path}: its first {digest['lines']} lines differ from their hash")
    return part


def read_log(path: Path, digest: LogDigest | None) -> bytes:
    """Return a whole log, verified if there is a digest; empty if there is no log.

    Raises:
        IntegrityError: The log differs from the digest.
    """
    if digest is None:
        return path.read_bytes() if path.exists() else b""
    part = read_checked_part(path, digest)
    if path.stat().st_size != len(part):
        raise IntegrityError(f"{path}: has {path.stat().st_size} bytes, but {len(part)} were written")
    return part


def parse_intact_lines(raw: bytes) -> list[Line]:
    """Return the intact lines of a log, without those that a kill or a full disk has damaged."""
    return [values for values in _parse(raw) if values is not None]


def parse_all_lines(raw: bytes, path: Path) -> list[Line]:
    """Return all lines of a log. A skipped line would leave an unnoticed gap in curves.

    Raises:
        IntegrityError: A line is damaged.
    """
    lines = []
    for number, values in enumerate(_parse(raw), 1):
        if values is None:
            raise IntegrityError(f"{path}: line {number} cannot be read; its bytes have changed")
        lines.append(values)
    return lines


def _parse(raw: bytes) -> list[Line | None]:
    """Parse each line; None for a damaged one. An unfinished last line is left out."""
    return [_parse_line(line) for line in raw.split(b"\n")[:-1]]


def _parse_line(line: bytes) -> Line | None:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None
