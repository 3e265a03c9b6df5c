"""Files that a manifest names with their size and hashes: is a file still the one that was written?

SHA-256 says what a file is, and a full check compares it. Opening a file compares xxh3, which takes a tenth of the time
and finds damage as well: it does not protect from somebody who changes a file on purpose.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import xxhash
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError
from clocs.core.files import file_hash, find_damage

BLOCK_BYTES: Final = 1 << 20
"""Bytes that are hashed at once: they stay in the processor's cache."""


class FileInfo(BaseModel):
    """A file of a folder, by its path within it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    bytes: int
    xxh3: str
    """XXH3, 128 bits."""


def file_info(folder: Path, file: str, sha256: str | None = None) -> FileInfo:
    """Return what a manifest says of a file that was just written; ``sha256`` if it is known already."""
    path = folder / file
    return FileInfo(file=file, sha256=sha256 or file_hash(path), bytes=path.stat().st_size, xxh3=_quick_hash(path))


def bytes_info(file: str, data: bytes) -> FileInfo:
    """Return what a manifest says of a file that holds these bytes."""
    digest = xxhash.xxh3_128_hexdigest(data)
    return FileInfo(file=file, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), xxh3=digest)


def file_damage(folder: Path, info: FileInfo) -> str:
    """Return what is wrong with a file, all of its bytes read and compared by SHA-256; empty: nothing."""
    return find_damage(folder / info.file, info.sha256, info.bytes)


def check_file(folder: Path, info: FileInfo) -> None:
    """Read a file to its end, and refuse it by name if it is not the one that was written."""
    path = folder / info.file
    try:
        size = path.stat().st_size
        whole = size == info.bytes and _quick_hash(path) == info.xxh3
    except OSError as error:
        raise _refusal(info, f"cannot be read: {error.strerror}") from error
    if not whole:
        raise _refusal(info, f"{size} bytes, manifest says {info.bytes}" if size != info.bytes else "its bytes differ")


def _refusal(info: FileInfo, found: str) -> IntegrityError:
    return IntegrityError(f"{info.file}: {found}. Restore this file from a copy, or make it again.")


def _quick_hash(path: Path) -> str:
    digest = xxhash.xxh3_128()
    piece = memoryview(bytearray(BLOCK_BYTES))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(piece):
            digest.update(piece[:count])
    return digest.hexdigest()
