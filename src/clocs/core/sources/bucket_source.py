"""Folders in a bucket as sources of files."""

from __future__ import annotations

import errno
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from clocs.core.errors import ConfigError, FormatError, StoreError
from clocs.core.sources import source_files
from clocs.core.sources.source_files import check_size, not_found, strip_extension, walk_order
from clocs.core.sources.zip_source import ZIP, ZipSource, open_zip, split_archive
from clocs.core.storage.bucket import LIST_PAGE, ObjectInfo
from clocs.core.storage.locations import ObjectPath
from clocs.core.storage.object_cache import download, local_folder

SMALL_BYTES: Final = 64 << 10
"""Objects up to this size are read whole when their beginning is asked for."""
MAX_REMEMBERED: Final = 8
"""Number of small objects that are remembered, because a file's format is detected before the file is read."""
Result = TypeVar("Result")


class Listed(NamedTuple):
    """Size and tag of an object, from a listing."""

    size: int
    """Size in bytes."""
    tag: int
    """First 60 bits of a hash of the ETag, which changes with the content."""


class BucketSource:
    """A folder in a bucket. Names, sizes and ETags come from listings, and zip archives are treated as folders.

    A walk over all names lists the folder. Without it, a question about an object lists the thousand keys around it,
    which answers the questions about its neighbors, too. An archive is copied to this machine before it is read.

    Args:
        folder: The folder.
    """

    stamps_content = True
    """Objects of equal stamps have equal content."""

    def __init__(self, folder: ObjectPath) -> None:
        self.path = str(folder)
        self._folder = folder
        self._listed: dict[str, Listed] = {}
        self._bounds: tuple[str, str | None] | None = None
        """First and last name between which all objects are listed. A last name of None is the end of the folder."""
        self._small: OrderedDict[str, bytes] = OrderedDict()

    def names(self) -> Iterator[str]:
        self._listed = _answered(lambda: dict(map(self._entry, self._folder.opened.list_all(self._folder.prefix))))
        self._bounds = "", None
        if not self._listed:
            raise ConfigError(f"{self.path}: no such folder in the bucket")
        for name in sorted(self._listed, key=walk_order):
            if not name.endswith("/"):  # some tools create an empty object for a folder
                yield from self._members(name)

    def exists(self, name: str) -> bool:
        member = self._find_in_archive(name)
        return member[0].exists(member[1]) if member else self._find(name) is not None

    def size(self, name: str) -> int:
        if member := self._find_in_archive(name):
            return member[0].size(member[1])
        return self._get(name).size

    def read(self, name: str) -> bytes:
        return self.head(name, source_files.MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if member := self._find_in_archive(name):
            return member[0].head(member[1], count)
        if name in self._small:
            return self._small[name][:count]
        size = self._get(name).size
        end = size if size <= SMALL_BYTES else min(count, size)
        check_size(b"" if end <= source_files.MAX_FILE_BYTES else bytes(end), name)
        path = self._folder / name
        data = _answered(lambda: path.read_range(0, end)) if end else b""
        if size <= SMALL_BYTES:
            self._small[name] = data
            if len(self._small) > MAX_REMEMBERED:
                self._small.popitem(last=False)
        return data[:count]

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        return answer()

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return the size of an object and its tag; None if it does not exist."""
        if member := self._find_in_archive(name):
            return member[0].stamp(member[1])
        return self._find(name)

    def local_copy(self, name: str) -> Path:
        """Return a file on this machine with the content of an object. The cache keeps it until the object changes."""
        if self._find_in_archive(name):
            raise FormatError(f"{name}: must be read in parts, which an archive does not allow. Unpack the archive.")
        path, tag = self._folder / name, self._get(name).tag
        target = local_folder(self._folder) / "sources" / f"{tag:015x}-{path.name}"
        if not target.exists():
            _answered(lambda: download(path, target))
        return target

    def _entry(self, found: ObjectInfo) -> tuple[str, Listed]:
        tag = int(hashlib.sha256(found.etag.encode()).hexdigest()[:15], 16)
        return found.key.removeprefix(self._folder.prefix), Listed(found.size, tag)

    def _get(self, name: str) -> Listed:
        found = self._find(name)
        if found is None:
            raise not_found(name, self.path)
        return found

    def _find(self, name: str) -> Listed | None:
        """Return what listings say of an object, and list its neighbors if none covers it."""
        if name not in self._listed and not self._covers(name):
            before = strip_extension(name)  # the files of a record differ in their extensions
            before = name[:-1] if before == name else before
            page = _answered(lambda: self._folder.opened.list_page(self._folder.prefix, self._folder.prefix + before))
            self._listed = dict(map(self._entry, page))
            self._bounds = before, None if len(page) < LIST_PAGE else max(self._listed)
            if not self._covers(name):  # more than a page of keys begins like this one
                return self._ask(name)
        return self._listed.get(name)

    def _ask(self, name: str) -> Listed | None:
        try:
            return self._entry(_answered(lambda: self._folder.opened.info((self._folder / name).key)))[1]
        except FileNotFoundError:
            return None

    def _covers(self, name: str) -> bool:
        if self._bounds is None:
            return False
        first, last = self._bounds
        return first < name and (last is None or name <= last)  # UTF-8 has the order of its characters

    def _members(self, name: str) -> Iterator[str]:
        """Iterate over the name of an object, or over its members if it is an archive."""
        if name.lower().endswith(ZIP):
            try:
                yield from (f"{name}/{member}" for member in open_zip(self.local_copy(name)).names())
                return
            except FormatError:
                pass  # listed as a file, and reading it gives the reason
        yield name

    def _find_in_archive(self, name: str) -> tuple[ZipSource, str] | None:
        """Return the archive that contains a file, and the name of the file in the archive."""
        found = split_archive(name, self._find)
        return None if found is None else (open_zip(self.local_copy(found[0])), found[1])


def _answered(request: Callable[[], Result]) -> Result:
    """Return the result of a request. A failed one is an ``OSError``, which engines retry, and no fault of a file."""
    try:
        return request()
    except StoreError as error:
        raise OSError(errno.EIO, error.message) from error
