"""Read files from folders and zip archives through one interface, without unpacking."""

from __future__ import annotations

import errno
import functools
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from clocs.core.errors import ConfigError, FormatError

MAX_FILE_BYTES = 1 << 30
"""Maximum size of a file, 1 GiB. No supported format needs more, and memory use stays bounded."""
NOT_FOUND_CODES: Final = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Error codes for a name without a file. Other codes are errors of the disk."""
_ZIP_FOLDER: Final = re.compile(r"\.zip/", re.IGNORECASE)
DAMAGED_CODES: Final = {None, errno.EINVAL}
"""Error codes for a damaged archive: bz2 sets no code, and a seek to an invalid position sets EINVAL."""


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


class FolderSource:
    """A folder on disk. Zip archives in it are treated as folders: ``archive.zip/file``.

    Archives that cannot be opened and broken links are listed as files, and reading them raises an error. Pipes and
    devices are ignored. Links to folders are followed, except to a parent folder.

    Args:
        path: The folder.
    """

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
            raise _not_found(name, self.path)
        return status.st_size

    def read(self, name: str) -> bytes:
        return self.head(name, MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if member := self._find_in_archive(name):
            return member[0].head(member[1], count)
        if self._stat(name) is None:
            raise _not_found(name, self.path)
        try:
            with open(self._disk_path(name), "rb") as file:  # read() allocates as many bytes as requested
                return _check_size(file.read(min(count, os.fstat(file.fileno()).st_size)), name)
        except OSError as error:
            raise _read_error(self._disk_path(name), error) from error

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
            raise _read_error(self._disk_path(name), error) from error
        return status if stat.S_ISREG(status.st_mode) else None

    def _members(self, name: str) -> Iterator[str]:
        """Iterate over the name of a file, or over its members if it is an archive."""
        archive = self._open_archive(name) if name.lower().endswith(".zip") and self._stat(name) else None
        yield from [name] if archive is None else (f"{name}/{member}" for member in archive.names())

    def _open_archive(self, name: str) -> FileTree | None:
        try:
            return open_source(self._disk_path(name))
        except FormatError:
            return None

    def _find_in_archive(self, name: str) -> tuple[FileTree, str] | None:
        """Return the archive that contains a file, and the name of the file in the archive."""
        for extension in _ZIP_FOLDER.finditer(name):  # a folder may have this extension, too
            archive = name[: extension.end() - 1]
            if self._stat(archive):
                return open_source(self._disk_path(archive)), name[extension.end() :]
        return None

    def _disk_path(self, name: str) -> str:
        """Return the path of a file on disk, also if the path is not UTF-8."""
        path = os.path.join(self.path, name)
        if "\\x" not in name or os.path.exists(path):
            return path
        raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda match: bytes.fromhex(match.group(1).decode()), name.encode())
        return os.path.join(self.path, os.fsdecode(raw))


class ZipSource:
    """A zip archive, or a folder in one. Names with ``\\`` as separator are supported.

    Args:
        archive: The archive.
        prefix: Folder in the archive; empty for all of it.
    """

    def __init__(self, archive: Path, prefix: str = "") -> None:
        self.path = str(archive / prefix) if prefix else str(archive)
        try:
            self._zip = zipfile.ZipFile(archive)
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGED_CODES:
                raise _read_error(archive, error) from error
            raise FormatError(f"{archive.name} is not a readable zip archive: {error}") from error
        folder = prefix.rstrip("/") + "/" if prefix else ""
        names = {info.filename.replace("\\", "/"): info for info in self._zip.infolist()}
        self._members = {
            name.removeprefix(folder): info
            for name, info in names.items()
            if name.startswith(folder) and not name.endswith("/")
        }

    def names(self) -> Iterator[str]:
        yield from sorted(self._members, key=_walk_order)

    def exists(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        return self._member(name).file_size

    def read(self, name: str) -> bytes:
        return self.head(name, MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        member = self._member(name)
        try:
            with self._zip.open(member) as file:
                return _check_size(file.read(count), name)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError) as error:
            raise FormatError(f"{name}: damaged in its archive: {error}") from error
        except OSError as error:
            if error.errno not in DAMAGED_CODES:
                raise _read_error(f"{self.path}/{name}", error) from error
            raise FormatError(f"{name}: damaged in its archive: {error}") from error

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        return answer()

    def stamp(self, name: str) -> tuple[int, int] | None:
        """Return the size of a file and its CRC-32; None if it does not exist."""
        member = self._members.get(name)
        return None if member is None else (member.file_size, member.CRC)

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise _not_found(name, self.path)
        return self._members[name]


FileTree = FolderSource | ZipSource
"""A source whose files have a stamp, by which a change is noticed."""


@functools.lru_cache(maxsize=8)
def _open(path: str, _modified: int) -> FileTree:
    target = Path(path)
    if target.is_dir():
        return FolderSource(target)
    for archive in (target, *target.parents):
        if archive.is_file():
            inside = target.relative_to(archive).as_posix()
            return ZipSource(archive, "" if inside == "." else inside)
    raise ConfigError(f"{path}: no such folder or zip archive")


def open_source(path: str | os.PathLike[str]) -> FileTree:
    """Open a folder, a zip archive, or a folder in a zip archive.

    Args:
        path: The folder or archive, or ``archive.zip/folder``.

    Returns:
        The source. Recently opened sources are cached until the folder or archive changes.

    Raises:
        ConfigError: The path does not exist or must not be read.
        FormatError: The file is not a readable zip archive.
    """
    target = Path(path)
    try:
        existing = next((part for part in (target, *target.parents) if part.exists()), None)
        return _open(str(target), existing.stat().st_mtime_ns if existing else 0)
    except PermissionError as error:
        raise _read_error(target, error) from error


def file_size(source: Source, name: str) -> int | None:
    """Return the size of a file in bytes, or None if it does not exist."""
    try:
        return source.size(name)
    except FormatError:
        return None


def local_path(source: Source, name: str) -> Path:
    """Return the path on disk of a file that is read in parts, such as an HDF5 file of many recordings.

    Args:
        source: Source that holds the file.
        name: Name of the file within the source.

    Returns:
        The path.

    Raises:
        FormatError: There is no such file, or it is inside an archive.
    """
    path = Path(source.path, name)
    if path.is_file():
        return path
    if source.exists(name):
        raise FormatError(f"{name}: must be read in parts, which an archive does not allow. Unpack the archive.")
    raise _not_found(name, source.path)


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


def _not_found(name: str, path: str) -> FormatError:
    return FormatError(f"{name}: no such file in {path}")


def _read_error(path: str | Path, error: OSError) -> Exception:
    """Return a ``ConfigError`` for a missing permission, otherwise an ``OSError``, which engines retry."""
    message = f"{path}: cannot be read: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return ConfigError(f"{message}. Give this user permission to read it, or move it out of the source.")
    return OSError(error.errno, message)


def _to_utf8(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 written as ``\\xfc``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _walk_order(name: str) -> list[tuple[bool, str]]:
    """Return a sort key that lists the files of a folder before its folders."""
    *folders, file = name.split("/")
    return [*((True, folder) for folder in folders), (False, file)]


def _check_size(data: bytes, name: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise FormatError(f"{name}: larger than {MAX_FILE_BYTES >> 20} MiB. Split it before reading.")
    return data


def strip_extension(name: str) -> str:
    """Return the name of a file, with its folders, without its extension.

    Digits after the last dot are not an extension, because DICOM files are named by numbers with dots.

    Args:
        name: Name of a file.

    Returns:
        The name without its extension.

    Example:
        >>> strip_extension("ecgs/a.xml"), strip_extension("1.2.840.7")
        ('ecgs/a', '1.2.840.7')
    """
    stem, dot, extension = name.rpartition(".")
    return name if not dot or not stem or "/" in extension or stem.endswith("/") or extension.isdigit() else stem
