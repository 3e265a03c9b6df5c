"""Folders on disk as sources of files."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError, FormatError
from clocs.core.sources import source_files
from clocs.core.sources.source_files import check_size, not_found, read_error
from clocs.core.sources.zip_source import ZIP, ZipSource, open_zip, split_archive

NOT_FOUND_CODES: Final = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Error codes for a name without a file. Other codes are errors of the disk."""


class FolderSource:
    """A folder on disk. Zip archives in it are treated as folders: ``archive.zip/file``.

    Archives that cannot be opened and broken links are listed as files, and reading them raises an error. Pipes and
    devices are ignored. Links to folders are followed, except to a parent folder.

    Args:
        path: The folder.
    """

    stamps_content = False
    """A time may change without the content."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._root = path

    def names(self) -> Iterator[str]:
        pending: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(self._root),))]
        while pending:
            prefix, parents = pending.pop()
            files, folders = _list_folder(self._root / prefix)
            for file in files:
                yield from self._members(_to_utf8(prefix + file.name))
            inside = [(f"{prefix}{folder.name}/", _real_path(folder, parents[-1])) for folder in reversed(folders)]
            pending += [(path, (*parents, real)) for path, real in inside if real not in parents]

    def exists(self, name: str) -> bool:
        member = self._find_in_archive(name)
        return member[0].exists(member[1]) if member else self._stat(name) is not None

    def size(self, name: str) -> int:
        if member := self._find_in_archive(name):
            return member[0].size(member[1])
        if (status := self._stat(name)) is None:
            raise not_found(name, self.path)
        return status.st_size

    def read(self, name: str) -> bytes:
        return self.head(name, source_files.MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if member := self._find_in_archive(name):
            return member[0].head(member[1], count)
        if self._stat(name) is None:
            raise not_found(name, self.path)
        try:
            with open(self._disk_path(name), "rb") as file:  # read() allocates as many bytes as requested
                return check_size(file.read(min(count, os.fstat(file.fileno()).st_size)), name)
        except OSError as error:
            raise read_error(self._disk_path(name), error) from error

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        return answer()

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return the size of a file and its time of change in ns; None if it does not exist."""
        if member := self._find_in_archive(name):
            return member[0].stamp(member[1])
        status = self._stat(name)
        return None if status is None else (status.st_size, status.st_mtime_ns)

    def _stat(self, name: str) -> os.stat_result | None:
        """Return the status of a regular file, otherwise None. Opening a pipe would wait forever."""
        try:
            status = os.stat(self._disk_path(name))
        except ValueError:
            return None
        except OSError as error:
            if error.errno in NOT_FOUND_CODES:
                return None
            raise read_error(self._disk_path(name), error) from error
        return status if stat.S_ISREG(status.st_mode) else None

    def _members(self, name: str) -> Iterator[str]:
        """Iterate over the name of a file, or over its members if it is an archive."""
        archive = self._open_archive(name) if name.lower().endswith(ZIP) and self._stat(name) else None
        yield from [name] if archive is None else (f"{name}/{member}" for member in archive.names())

    def _open_archive(self, name: str) -> ZipSource | None:
        try:
            return open_zip(self._disk_path(name))
        except FormatError:
            return None

    def _find_in_archive(self, name: str) -> tuple[ZipSource, str] | None:
        """Return the archive that contains a file, and the name of the file in the archive."""
        found = split_archive(name, self._stat)
        return None if found is None else (open_zip(self._disk_path(found[0])), found[1])

    def _disk_path(self, name: str) -> str:
        """Return the path of a file on disk, also if the path is not UTF-8."""
        path = os.path.join(self.path, name)
        if "\\x" not in name or os.path.exists(path):
            return path
        raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda match: bytes.fromhex(match.group(1).decode()), name.encode())
        return os.path.join(self.path, os.fsdecode(raw))


def _list_folder(folder: Path) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Return the files and the folders in a folder, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:  # skipping the folder would look as if its files were deleted
        raise ConfigError(
            f"{folder}: this folder cannot be listed: {error.strerror or error}. "
            "Give this user permission to read it, or move it out of the source."
        ) from error
    files, folders = [], []
    for entry in listed:
        is_link = entry.is_symlink()
        if os.path.isdir(entry) if is_link else entry.is_dir():
            folders.append(entry)
        elif (os.path.isfile(entry) or not os.path.exists(entry)) if is_link else entry.is_file():
            files.append(entry)
    return files, folders


def _real_path(folder: os.DirEntry[str], parent: str) -> str:
    """Return the path of a folder with links resolved, given the resolved path of its parent."""
    return os.path.realpath(folder) if folder.is_symlink() else os.path.join(parent, folder.name)


def _to_utf8(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 written as ``\\xfc``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
