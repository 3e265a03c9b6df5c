"""Copies of objects on this machine, each downloaded once, whole and checked.

Objects of a store never change, so a copy stays valid. Lists and tables of a store are kept until somebody deletes
them. Shards are kept within a limit, see :mod:`clocs.core.storage.bounded_cache`.
"""

from __future__ import annotations

import atexit
import errno
import functools
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.storage.bounded_cache import BoundedCache
from clocs.core.storage.counters import count
from clocs.core.storage.locations import ObjectPath

CACHE: Final = "CLOCS_CACHE"
"""Environment variable with the folder of local copies of objects."""
LIMIT: Final = "CLOCS_CACHE_LIMIT"
"""Environment variable with the maximum size of all copies of shards, such as ``200GB``."""
DEFAULT_SHARE: Final = 0.9
"""Fraction of the free disk space that copies of shards may take without a limit."""


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


def local_tree(folder: ObjectPath, names: Mapping[str, ObjectPath]) -> Path:
    """Return a folder on disk with the contents of objects, which may be replaced. Copies stay until their tags change.

    Args:
        folder: Folder in the bucket.
        names: Objects by relative path in the returned folder, in the order in which they appear.

    Raises:
        FileNotFoundError: There is no such object.
    """
    tags = [(name, path.stat().etag) for name, path in names.items()]
    target = local_folder(folder) / "trees" / hashlib.sha256(repr(tags).encode()).hexdigest()[:16]
    for name, path in names.items():
        if not (target / name).exists():
            download(path, target / name)
    return target


def read_tagged(path: ObjectPath, etag: str) -> bytes:
    """Return the content of a small object that may be replaced. A copy is kept until its tag changes.

    Args:
        path: The object.
        etag: Its tag, from a listing.
    """
    tag = hashlib.sha256(etag.encode()).hexdigest()[:16]
    target = local_folder(path.parent.parent) / path.parent.name / f"{path.stem}-{tag}{path.suffix}"
    if not target.exists():
        download(path, target)
    return target.read_bytes()


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
        _make_private_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    os.close(handle)
    try:
        _fetch(path, Path(partial), sha256)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def _fetch(path: ObjectPath, target: Path, sha256: str | None) -> None:
    """Write an object to a file and compare it with its hash."""
    digest = hashlib.sha256()
    try:
        with open(target, "wb") as file:
            for part in path.opened.read_parts(path.key):
                file.write(part)
                digest.update(part)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OSError(error.errno, f"{target.parent} is full. Set {CACHE} to another folder") from error
        raise
    if sha256 is not None and digest.hexdigest() != sha256:
        count("failed_checksums")
        raise IntegrityError(f"{path}: does not match its hash. Restore it from a backup or ingest again.")


def _make_private_folder() -> None:
    os.makedirs(cache_folder(), mode=0o700, exist_ok=True)  # recordings of patients


class ShardCopy(NamedTuple):
    """An object of a store whose copies are kept within the limit of this machine's cache."""

    path: ObjectPath
    """The object."""
    sha256: str
    """SHA-256 of its content."""
    num_bytes: int
    """Its size."""

    @property
    def name(self) -> str:
        """Name of the copy."""
        return f"{hashlib.sha256(str(self.path.parent).encode()).hexdigest()[:16]}-{self.path.name}"

    def fetch(self, target: Path) -> None:
        """Write the content to a file and check it."""
        _fetch(self.path, target, self.sha256)

    def hold(self) -> tuple[Path, Callable[[], None]]:
        """Return the copy, which stays until the returned function is called.

        Raises:
            CacheFullError: The copies in use leave no space for it.
            IntegrityError: The download does not match its hash.
        """
        cache = shard_cache()
        return cache.hold(self.name, self.num_bytes, self.fetch), functools.partial(cache.release_soon, self.name)


def shard_cache() -> BoundedCache:
    """Return the cache of shards of this machine, which all processes share."""
    return _shard_cache(cache_folder() / "shards", os.environ.get(LIMIT, ""), os.getpid())


@functools.lru_cache(maxsize=8)
def _shard_cache(folder: Path, limit: str, _process: int) -> BoundedCache:
    _make_private_folder()
    folder.mkdir(exist_ok=True)
    used = sum(path.stat().st_size for path in folder.glob("files/*"))
    free = shutil.disk_usage(folder).free + used
    cache = BoundedCache(folder, parse_size(limit) if limit else int(DEFAULT_SHARE * free))
    atexit.register(cache.close)
    return cache


def parse_size(text: str) -> int:
    """Return the number of bytes of a text such as ``200GB``.

    Raises:
        ConfigError: It is no size.

    Example:
        >>> from clocs.core.storage.object_cache import parse_size
        >>> parse_size("1.5 TB")
        1500000000000
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kMGT]?)B?", text.strip())
    size = int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " ")) if found else 0
    if not size:
        raise ConfigError(f"{LIMIT}={text}: expected a size such as 200GB or 1.5TB.")
    return size
