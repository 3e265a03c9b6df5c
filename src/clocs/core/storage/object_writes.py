"""Writes to a bucket. An object appears whole or not at all, and is created only if it does not exist."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clocs.core.errors import ExistsError, StoreError
from clocs.core.storage.locations import ObjectPath


@contextlib.contextmanager
def temporary_upload() -> Iterator[Any]:
    """Open a file for the bytes of an object that is written. It is removed at the end."""
    with tempfile.NamedTemporaryFile(prefix="clocs-upload-") as file:
        yield file


def create_object(path: ObjectPath, data: bytes | Path) -> None:
    """Write an object unless it exists with the same bytes.

    Args:
        path: The object.
        data: Its bytes, or the file that has them.

    Raises:
        ExistsError: It exists and has other bytes.
        StoreError: It cannot be written.
    """
    if not path.opened.create(path.key, data) and not _has_content(path, data):
        raise ExistsError(f"{path} was written by another process meanwhile, and is never overwritten.")


def replace_object(path: ObjectPath, data: bytes | Path) -> None:
    """Write an object, also if it exists."""
    path.opened.replace(path.key, data)


def update_object(path: ObjectPath, change: Callable[[bytes | None], bytes]) -> None:
    """Replace the content of an object by a function of it. After a concurrent change, the function is called again.

    Args:
        path: The object.
        change: Function from the content, or None without an object, to the new content.
    """
    while True:
        try:
            etag: str | None = path.stat().etag
            old: bytes | None = path.read_bytes()
        except FileNotFoundError:
            etag = old = None
        new = change(old)
        if new == old:
            return
        bucket = path.opened
        if bucket.create(path.key, new) if etag is None else bucket.replace(path.key, new, etag) is not None:
            return


def check_conditional_writes(folder: ObjectPath) -> None:
    """Raise an error if the server overwrites objects that must only be created. Each process asks once per bucket.

    Raises:
        StoreError: The server ignores If-None-Match, or the bucket cannot be written.
    """
    _check_bucket(folder.bucket, folder.prefix)


@functools.lru_cache(maxsize=64)
def _check_bucket(bucket: str, prefix: str) -> None:
    probe = ObjectPath(bucket, f"{prefix}.clocs-probe-{uuid.uuid4().hex}")
    probe.opened.create(probe.key, b"1")
    etag = f'"{"0" * 32}"'
    is_overwritten = probe.opened.create(probe.key, b"2") or probe.opened.replace(probe.key, b"3", etag) is not None
    is_overwritten = is_overwritten or probe.read_bytes() != b"1"
    probe.opened.delete(probe.key)
    if is_overwritten:
        raise StoreError(
            f"The server of s3://{bucket} overwrites objects against the writer's condition (it ignores If-None-Match "
            "or If-Match). Two writers would damage a store. Use a server with conditional writes."
        )


def _has_content(path: ObjectPath, data: bytes | Path) -> bool:
    """Return whether an object has these bytes."""
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    if path.stat().st_size != size:
        return False
    digest = hashlib.sha256()
    for part in path.opened.read_parts(path.key):
        digest.update(part)
    if isinstance(data, bytes):
        return digest.digest() == hashlib.sha256(data).digest()
    with open(data, "rb") as file:
        return digest.digest() == hashlib.file_digest(file, "sha256").digest()
