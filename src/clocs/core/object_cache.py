"""Copies of objects on this machine, each downloaded once, whole and checked.

Objects of a store never change, so a copy stays valid. It may be deleted at any time: its bytes remain available to
processes that have mapped it, and the next use fetches it again.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from clocs.core.counters import count
from clocs.core.errors import IntegrityError
from clocs.core.locations import ObjectPath

CACHE: Final = "CLOCS_CACHE"
"""Environment variable with the folder of local copies of objects."""


def cache_folder() -> Path:
    """Return the folder of local copies of objects: ``CLOCS_CACHE``, or ``clocs`` in the user's folder of caches."""
    if folder := os.environ.get(CACHE):
        return Path(folder).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "clocs")


def local_folder(folder: Path) -> Path:
    """Return the folder of this machine's copies of a folder in a bucket. A folder on disk is returned unchanged."""
    if not isinstance(folder, ObjectPath):
        return folder
    return cache_folder() / "objects" / hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def local_copy(path: Path, sha256: str | None = None) -> Path:
    """Return a file on disk with the content of a location. An object is downloaded once and kept in the cache.

    Args:
        path: The location. A file on disk is returned unchanged.
        sha256: SHA-256 that a download must have; None to accept any content.

    Returns:
        Path of the file.

    Raises:
        FileNotFoundError: There is no such object.
        IntegrityError: The download does not match its hash.
    """
    if not isinstance(path, ObjectPath):
        return path
    name = path.name if sha256 is None or sha256[:16] in path.name else f"{path.stem}-{sha256[:16]}{path.suffix}"
    target = local_folder(path.parent.parent) / path.parent.name / name
    if target.exists():
        count("cache_hits")
        return target
    count("cache_misses")
    download(path, target, sha256)
    return target


def download(path: ObjectPath, target: Path, sha256: str | None = None) -> None:
    """Fetch an object whole to a file, which appears under its name once it is complete and checked.

    Args:
        path: The object.
        target: The file. Missing folders are created. Several processes may fetch the same one.
        sha256: SHA-256 that the content must have; None to accept any.

    Raises:
        FileNotFoundError: There is no such object.
        IntegrityError: The content does not match its hash.
    """
    if target.is_relative_to(cache_folder()):
        os.makedirs(cache_folder(), mode=0o700, exist_ok=True)  # recordings of patients
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        digest = hashlib.sha256()
        with open(handle, "wb") as file:
            for part in path.opened.read_parts(path.key):
                file.write(part)
                digest.update(part)
        if sha256 is not None and digest.hexdigest() != sha256:
            count("failed_checksums")
            raise IntegrityError(f"{path}: does not match its hash. Restore it from a backup or ingest again.")
        os.replace(partial, target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(error.errno, f"{target.parent} is full. Set {CACHE} to another folder") from error
        raise
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
