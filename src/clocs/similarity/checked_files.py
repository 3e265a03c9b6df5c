"""Files that a manifest names with their size and hash: is a file still the one that was written?"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.files import canonical_json, damage, file_hash, write_bytes

SEEN = ".seen.json"


class FileInfo(BaseModel):
    """A file of a folder, by its path within it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    bytes: int


def describe(folder: Path, file: str) -> FileInfo:
    """What a manifest says of a file that was just written."""
    path = folder / file
    return FileInfo(file=file, sha256=file_hash(path), bytes=path.stat().st_size)


def problem(folder: Path, info: FileInfo) -> str:
    """What is wrong with a file, all of its bytes read; empty: nothing."""
    return damage(folder / info.file, info.sha256, info.bytes)


def refuse_damaged(folder: Path, info: FileInfo) -> None:
    """Read a file to its end, and refuse it by name if it is not the one that was written."""
    found = problem(folder, info)
    if found:
        raise IntegrityError(f"{info.file}: {found}. Restore this file from a copy, or make it anew.")


def refuse_changed(folder: Path, files: Iterable[FileInfo]) -> None:
    """Refuse damaged files, reading only those whose size, time or inode differ from when they were last read whole.

    So opening is quick however large the files are, and a file that was copied, cut or written to is read once more.
    What it cannot see is a disk that returns other bytes under an unchanged time: a full check does.
    """
    seen, known = _seen(folder), list(files)
    doubtful = [info for info in known if seen.get(info.file) != _mark(folder, info)]
    for info in doubtful:
        refuse_damaged(folder, info)
    if doubtful:
        remember(folder, known)


def remember(folder: Path, files: Iterable[FileInfo]) -> None:
    """Note files as whole that were just written or read to their end."""
    with contextlib.suppress(StoreError):  # a folder that may only be read is hashed each time
        write_bytes(folder / SEEN, canonical_json({info.file: _mark(folder, info) for info in files}))


def _mark(folder: Path, info: FileInfo) -> list[object]:
    try:
        found = os.stat(folder / info.file)
    except OSError as error:
        raise IntegrityError(f"{info.file}: cannot be read: {error.strerror}") from error
    return [info.sha256, found.st_size, found.st_mtime_ns, found.st_ino]


def _seen(folder: Path) -> dict[str, list[object]]:
    try:
        held = json.loads((folder / SEEN).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}
