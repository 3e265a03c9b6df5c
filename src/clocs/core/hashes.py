"""Hashes of files and of JSON, and JSON that contains its own hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError
from clocs.core.storage.locations import ObjectPath

_CHUNK = 1 << 20


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON in canonical form: equal values give equal bytes."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def content_hash(value: Any) -> str:
    """Return the SHA-256 hash of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def seal(body: dict[str, Any]) -> bytes:
    """Return JSON that contains its own hash. Read it with :func:`unseal`."""
    return canonical_json({**body, "sha256": content_hash(body)})


def unseal(raw: bytes, name: str) -> dict[str, Any]:
    """Return the contents of sealed JSON.

    Any change of the bytes is detected, including one that leaves the values equal.

    Args:
        raw: Bytes that :func:`seal` returned.
        name: Name of the file, for the error message.

    Returns:
        The contents, without the hash.

    Raises:
        IntegrityError: The bytes differ from those that were sealed.
    """
    try:
        body = json.loads(raw)
        del body["sha256"]
        is_intact = seal(body) == raw
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"{name}: cannot be read, because its bytes have changed ({type(error).__name__})"
        ) from error
    if not is_intact:
        raise IntegrityError(f"{name}: does not match its own hash")
    return dict(body)


def file_hash(path: Path) -> str:
    """Return the SHA-256 hash of a file, read in chunks."""
    digest = hashlib.sha256()
    for chunk in read_chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def read_chunks(path: Path) -> Iterator[bytes]:
    """Iterate over the bytes of a file in chunks. Those of an object come from its bucket, not from a copy."""
    if isinstance(path, ObjectPath):
        yield from path.opened.read_parts(path.key)
        return
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def find_damage(path: Path, sha256: str, size: int | None) -> str:
    """Compare a file with its recorded hash and size.

    Args:
        path: The file. All of its bytes are read.
        sha256: The recorded hash.
        size: The recorded size in bytes; None if it is unknown.

    Returns:
        A description of the damage, empty if the file is intact.
    """
    try:
        actual_size = path.stat().st_size
        if size is not None and actual_size != size:
            return f"{actual_size} bytes, manifest says {size}"
        return "" if file_hash(path) == sha256 else "content differs from its recorded hash"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
