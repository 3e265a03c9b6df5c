"""Checksums of the files that a manifest lists.

Opening a file compares its XXH3 hash, which is about ten times faster than SHA-256 and detects accidental damage. A
full verification compares SHA-256. Neither protects against an attacker who also rewrites the manifest.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import xxhash
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError
from clocs.core.hashes import file_hash, find_damage
from clocs.core.storage.object_cache import local_copy

BLOCK_BYTES: Final = 1 << 20
"""Bytes per hashing block, few enough to stay in the processor's cache."""


class FileInfo(BaseModel):
    """Path, size and hashes of a file in a folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    bytes: int
    xxh3: str
    """XXH3 hash, 128 bits, hexadecimal."""


def file_info(folder: Path, file: str, sha256: str | None = None) -> FileInfo:
    """Return size and hashes of a file that was just written. Pass ``sha256`` if it is already known."""
    path = folder / file
    sha256 = sha256 or file_hash(path)
    path = local_copy(path, sha256)
    return FileInfo(file=file, sha256=sha256, bytes=path.stat().st_size, xxh3=_quick_hash(path))


def bytes_info(file: str, data: bytes) -> FileInfo:
    """Return size and hashes of a file with this content."""
    digest = xxhash.xxh3_128_hexdigest(data)
    return FileInfo(file=file, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), xxh3=digest)


def file_damage(folder: Path, info: FileInfo) -> str:
    """Return a description of the damage to a file, found by reading all of it; empty if the file is intact."""
    return find_damage(folder / info.file, info.sha256, info.bytes)


def check_file(folder: Path, info: FileInfo) -> None:
    """Compare a file with its size and XXH3 hash.

    Raises:
        IntegrityError: The file is missing, unreadable or damaged.
    """
    path = folder / info.file
    try:
        path = local_copy(path, info.sha256)
        size = path.stat().st_size
        is_intact = size == info.bytes and _quick_hash(path) == info.xxh3
    except OSError as error:
        raise _damage_error(info, f"cannot be read: {error.strerror}") from error
    if not is_intact:
        raise _damage_error(info, f"{size} bytes instead of {info.bytes}" if size != info.bytes else "checksum differs")


def _damage_error(info: FileInfo, damage: str) -> IntegrityError:
    return IntegrityError(f"{info.file}: {damage}. Restore this file from a copy, or create it again.")


def _quick_hash(path: Path) -> str:
    digest = xxhash.xxh3_128()
    block = memoryview(bytearray(BLOCK_BYTES))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()
