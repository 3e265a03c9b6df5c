"""Zip archives as sources of files, without unpacking."""

from __future__ import annotations

import errno
import functools
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from clocs.core.errors import FormatError
from clocs.core.sources import source_files
from clocs.core.sources.source_files import check_size, not_found, read_error, walk_order

ZIP: Final = ".zip"
"""Extension of archives."""
_ZIP_FOLDER: Final = re.compile(r"\.zip/", re.IGNORECASE)
DAMAGED_CODES: Final = {None, errno.EINVAL}
"""Error codes for a damaged archive: bz2 sets no code, and a seek to an invalid position sets EINVAL."""


class ZipSource:
    """A zip archive, or a folder in one. Names with ``\\`` as separator are supported.

    Args:
        archive: The archive.
        prefix: Folder in the archive; empty for all of it.
    """

    stamps_content = True
    """Members of equal stamps have equal content."""

    def __init__(self, archive: Path, prefix: str = "") -> None:
        self.path = str(archive / prefix) if prefix else str(archive)
        try:
            self._zip = zipfile.ZipFile(archive)
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGED_CODES:
                raise read_error(archive, error) from error
            raise FormatError(f"{archive.name} is not a readable zip archive: {error}") from error
        folder = prefix.rstrip("/") + "/" if prefix else ""
        names = {info.filename.replace("\\", "/"): info for info in self._zip.infolist()}
        self._members = {
            name.removeprefix(folder): info
            for name, info in names.items()
            if name.startswith(folder) and not name.endswith("/")
        }

    def names(self) -> Iterator[str]:
        yield from sorted(self._members, key=walk_order)

    def exists(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        return self._member(name).file_size

    def read(self, name: str) -> bytes:
        return self.head(name, source_files.MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        member = self._member(name)
        try:
            with self._zip.open(member) as file:
                return check_size(file.read(count), name)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError) as error:
            raise FormatError(f"{name}: damaged in its archive: {error}") from error
        except OSError as error:
            if error.errno not in DAMAGED_CODES:
                raise read_error(f"{self.path}/{name}", error) from error
            raise FormatError(f"{name}: damaged in its archive: {error}") from error

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        return answer()

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return the size of a file and its CRC-32; None if it does not exist."""
        member = self._members.get(name)
        return None if member is None else (member.file_size, member.CRC)

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise not_found(name, self.path)
        return self._members[name]


@functools.lru_cache(maxsize=8)
def _open_zip(path: str, prefix: str, _modified: int) -> ZipSource:
    return ZipSource(Path(path), prefix)


def open_zip(archive: str | os.PathLike[str], prefix: str = "") -> ZipSource:
    """Open an archive, or a folder in it. Recently opened archives are cached until they change.

    Raises:
        FormatError: The file is not a readable zip archive.
    """
    path = os.fspath(archive)
    return _open_zip(path, prefix, os.stat(path).st_mtime_ns)


def split_archive(name: str, is_file: Callable[[str], object]) -> tuple[str, str] | None:
    """Return the archive that contains a file and the file's name in it; None for a file outside of archives.

    Args:
        name: Name of a file within a source, such as ``ward.zip/001.xml``.
        is_file: Function that returns whether the source has a file of a name. A folder may end in ``.zip``, too.
    """
    for extension in _ZIP_FOLDER.finditer(name):
        archive = name[: extension.end() - 1]
        if is_file(archive):
            return archive, name[extension.end() :]
    return None
