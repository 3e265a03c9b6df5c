"""Read files from folders, zip archives and buckets through one interface, without unpacking."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from clocs.core.errors import ConfigError, FormatError
from clocs.core.sources.bucket_source import BucketSource
from clocs.core.sources.folder_source import FolderSource
from clocs.core.sources.source_files import not_found, read_error
from clocs.core.sources.zip_source import ZipSource, open_zip
from clocs.core.storage.locations import ObjectPath, to_location


class Source(Protocol):
    """A tree of files. A file is named by its path in the tree, with ``/`` as separator."""

    path: str
    """Path of the folder or archive."""

    def __hash__(self) -> int: ...

    def names(self) -> Iterator[str]:
        """Iterate over the names of all files in a fixed order."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file with a name."""
        ...

    def size(self, name: str) -> int:
        """Return the size of a file in bytes. Raise a ``FormatError`` if it does not exist."""
        ...

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise a ``FormatError`` if it does not exist."""
        ...

    def head(self, name: str, count: int) -> bytes:
        """Return the first ``count`` bytes of a file. Raise a ``FormatError`` if it does not exist."""
        ...

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        """Return the answer to a question about the content of a file.

        A source that knows the answer from an earlier ingest returns it without reading the file again. An answer of
        None is not remembered.
        """
        ...


FileTree = FolderSource | ZipSource | BucketSource
"""A source whose files have a stamp, by which a change is noticed."""


def open_source(path: str | os.PathLike[str]) -> FileTree:
    """Open a folder, a zip archive, a folder in a zip archive, or a folder in a bucket.

    Args:
        path: The folder or archive, ``archive.zip/folder``, or ``s3://bucket/folder``.

    Returns:
        The source.

    Raises:
        ConfigError: The path does not exist or must not be read.
        FormatError: The file is not a readable zip archive.
    """
    target = to_location(path)
    if isinstance(target, ObjectPath):
        return BucketSource(target)
    try:
        if target.is_dir():
            return FolderSource(target)
        for archive in (target, *target.parents):
            if archive.is_file():
                inside = target.relative_to(archive).as_posix()
                return open_zip(archive, "" if inside == "." else inside)
    except PermissionError as error:
        raise read_error(target, error) from error
    raise ConfigError(f"{path}: no such folder or zip archive")


def file_size(source: Source, name: str) -> int | None:
    """Return the size of a file in bytes, or None if it does not exist."""
    try:
        return source.size(name)
    except FormatError:
        return None


def local_path(source: Source, name: str) -> Path:
    """Return the path on disk of a file that is read in parts, such as an HDF5 file of many recordings.

    A file in a bucket is copied to this machine first.

    Args:
        source: Source that holds the file.
        name: Name of the file within the source.

    Returns:
        The path.

    Raises:
        FormatError: There is no such file, or it is inside an archive.
    """
    location = to_location(source.path)
    if isinstance(location, ObjectPath):
        return BucketSource(location).local_copy(name)
    path = Path(location, name)
    if path.is_file():
        return path
    if source.exists(name):
        raise FormatError(f"{name}: must be read in parts, which an archive does not allow. Unpack the archive.")
    raise not_found(name, source.path)
