"""Locations of files: a path on disk, or an object in a bucket, ``s3://bucket/key``.

An ``ObjectPath`` has the methods of ``Path`` that stores use, and type checkers take it for one. Together with
:mod:`clocs.core.storage.files`, which writes both, it is the only code that knows whether a file is on disk or in a
bucket.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from clocs.core.errors import ConfigError
from clocs.core.storage.bucket import Bucket, ObjectInfo, open_bucket

if TYPE_CHECKING:
    from pathlib import Path as _Base
else:
    _Base = object
_URL = re.compile(r"^s3:/{1,2}(?P<bucket>[^/]+)(?:/(?P<key>.*))?$")


class ObjectStatus(NamedTuple):
    """Size and time of an object, under the names that ``Path.stat`` gives them."""

    st_size: int
    """Size in bytes."""
    st_mtime: float
    """Time of the write in seconds."""
    etag: str
    """Tag that changes with the content."""


@dataclass(frozen=True)
class ObjectPath(_Base):  # its methods have fewer options than those of Path
    """Path of an object in a bucket, or of a folder: a prefix of keys. It pickles as its names, without credentials.

    Args:
        bucket: Name of the bucket.
        key: Key without a ``/`` at its ends; empty for the whole bucket.
    """

    bucket: str
    key: str = ""

    def __truediv__(self, name: str) -> ObjectPath:  # type: ignore[override]
        joined = PurePosixPath(self.key, name).as_posix()
        return ObjectPath(self.bucket, "" if joined == "." else joined)

    def __lt__(self, other: ObjectPath) -> bool:  # type: ignore[override]
        return (self.bucket, self.key) < (other.bucket, other.key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}".rstrip("/")

    def __fspath__(self) -> str:
        return str(self)

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.key).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> ObjectPath:
        return ObjectPath(self.bucket) / PurePosixPath(self.key).parent.as_posix()

    @property
    def parents(self) -> list[ObjectPath]:
        return [ObjectPath(self.bucket) / above.as_posix() for above in PurePosixPath(self.key).parents]

    def with_name(self, name: str) -> ObjectPath:
        return self.parent / name

    def with_stem(self, stem: str) -> ObjectPath:
        return self.parent / f"{stem}{self.suffix}"

    def with_suffix(self, suffix: str) -> ObjectPath:
        return self.parent / f"{self.stem}{suffix}"

    def absolute(self) -> ObjectPath:
        return self

    def resolve(self) -> ObjectPath:  # type: ignore[override]
        return self

    def as_posix(self) -> str:
        return str(self)

    def relative_to(self, folder: ObjectPath) -> PurePosixPath:  # type: ignore[override]
        return PurePosixPath(self.key).relative_to(folder.key)

    @property
    def opened(self) -> Bucket:
        """The bucket, connected."""
        return open_bucket(self.bucket)

    @property
    def prefix(self) -> str:
        """Beginning of the keys in this folder."""
        return f"{self.key}/" if self.key else ""

    def stat(self) -> ObjectStatus:  # type: ignore[override]
        """Return size, time and tag. Raise ``FileNotFoundError`` if there is no such object."""
        return _status(self.opened.info(self.key))

    def is_file(self) -> bool:
        return self.exists()

    def exists(self) -> bool:
        """Return whether there is such an object. A folder is only the beginning of names, and does not exist."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        objects, folders = self.opened.list_folder(self.prefix)
        return bool(objects or folders)

    def is_symlink(self) -> bool:
        return False

    def read_bytes(self) -> bytes:
        """Return the content. Raise ``FileNotFoundError`` if there is no such object."""
        return self.opened.read(self.key)

    def read_range(self, begin: int, end: int) -> bytes:
        """Return the bytes from ``begin`` to ``end``, by one request."""
        return self.opened.read(self.key, begin, end)

    def iterdir(self) -> Iterator[ObjectPath]:  # type: ignore[override]
        objects, folders = self.opened.list_folder(self.prefix)
        yield from (ObjectPath(self.bucket, found.key) for found in objects)
        yield from (ObjectPath(self.bucket, name.rstrip("/")) for name in folders)

    def statuses(self) -> dict[str, ObjectStatus]:
        """Return size, time and tag of each object of this folder by name, by a request per thousand."""
        return {PurePosixPath(found.key).name: _status(found) for found in self.opened.list_folder(self.prefix)[0]}

    def glob(self, pattern: str) -> Iterator[ObjectPath]:  # type: ignore[override]
        """Iterate over the objects of this folder whose names match a pattern without ``/``."""
        return (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:  # type: ignore[override]
        """Iterate over the objects of this folder and the folders below whose names match a pattern."""
        paths = (ObjectPath(self.bucket, found.key) for found in self.opened.list_all(self.prefix))
        return (path for path in paths if fnmatch.fnmatchcase(path.name, pattern))


def to_location(path: str | os.PathLike[str]) -> Path:
    """Return the location of a path or URL.

    Args:
        path: Path on disk, or ``s3://bucket/key``. ``Path`` makes one slash of two; that is understood, too.

    Returns:
        A ``Path`` or an ``ObjectPath``.

    Raises:
        ConfigError: The URL names no bucket, or is of another service.

    Example:
        >>> from clocs.core.storage.locations import to_location
        >>> str(to_location("s3://ecgs/stores/ptbxl/") / "splits")
        's3://ecgs/stores/ptbxl/splits'
        >>> to_location("stores/ptbxl").name
        'ptbxl'
    """
    if isinstance(path, ObjectPath):
        return path
    text = os.fspath(path)
    if found := _URL.match(text):
        return ObjectPath(found["bucket"]) / (found["key"] or "").strip("/")
    if re.match(r"^(s3|gs|az|abfss?|https?):/", text):
        raise ConfigError(f"{text}: not a location of a file. Pass a folder or s3://bucket/key.")
    return Path(path)


def join_location(folder: Path, relative: str) -> Path:
    """Return the location of a path relative to a folder. A URL stands for itself."""
    return to_location(relative) if _URL.match(relative) else folder / relative


def _status(found: ObjectInfo) -> ObjectStatus:
    return ObjectStatus(found.size, found.modified.timestamp(), found.etag)
