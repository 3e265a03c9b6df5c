"""Reading: a folder and a zip archive look alike, and nothing is unpacked."""

from __future__ import annotations

import errno
import functools
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from clocs.core.errors import ConfigError, FormatError

MAX_FILE_BYTES = 1 << 30
"""A single file over 1 GiB is refused: no ECG format here needs more, and memory must stay bounded."""
ABSENT: Final = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""How a disk says that a name is no file's. Anything else is not the file's fault, and must not pass for one."""
DAMAGED: Final = {None, errno.EINVAL}
"""How a damaged archive shows: bz2 gives no number, a seek to nowhere EINVAL."""


class Source(Protocol):
    """A tree of files, named by their path within it, with ``/`` between parts."""

    path: str

    def names(self) -> Iterator[str]:
        """Every file, in a fixed order."""
        ...

    def exists(self, name: str) -> bool: ...

    def size(self, name: str) -> int:
        """In bytes; no file of that name is a ``FormatError``, here and below."""
        ...

    def read(self, name: str) -> bytes: ...

    def head(self, name: str, count: int) -> bytes:
        """The first ``count`` bytes."""
        ...


class FolderSource:
    """A directory on disk; a zip archive in it is one more folder, ``archive.zip/file``.

    An archive that cannot be opened is listed as the file it is, and so is a link to nothing: reading them says why.
    Pipes and devices are no files. Links to folders are followed, but not to one that the walk has come through.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._root = path

    def names(self) -> Iterator[str]:
        waiting: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(self._root),))]
        while waiting:
            prefix, above = waiting.pop()
            files, folders = _listed(self._root / prefix)
            for file in files:
                yield from self._members(_spelled(prefix + file.name))
            inside = [(f"{prefix}{folder.name}/", _real(folder, above[-1])) for folder in reversed(folders)]
            waiting += [(place, (*above, real)) for place, real in inside if real not in above]

    def exists(self, name: str) -> bool:
        place = self._in_archive(name)
        return place[0].exists(place[1]) if place else self._file(name) is not None

    def size(self, name: str) -> int:
        if place := self._in_archive(name):
            return place[0].size(place[1])
        if (found := self._file(name)) is None:
            raise _absent(name, self.path)
        return found.st_size

    def read(self, name: str) -> bytes:
        return self.head(name, MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if place := self._in_archive(name):
            return place[0].head(place[1], count)
        if self._file(name) is None:
            raise _absent(name, self.path)
        try:
            with open(self._place(name), "rb") as file:  # which takes memory for all it is asked to read
                return _bounded(file.read(min(count, os.fstat(file.fileno()).st_size)), name)
        except OSError as error:
            raise _cannot_read(self._place(name), error) from error

    def _file(self, name: str) -> os.stat_result | None:
        """What the disk says of a file; None where there is none: opening a pipe would wait for ever."""
        try:
            found = os.stat(self._place(name))
        except ValueError:
            return None
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise _cannot_read(self._place(name), error) from error
        return found if stat.S_ISREG(found.st_mode) else None

    def _members(self, name: str) -> Iterator[str]:
        """A file, or those in it if it is an archive."""
        archive = self._archive(name) if name.lower().endswith(".zip") and self._file(name) else None
        yield from [name] if archive is None else (f"{name}/{member}" for member in archive.names())

    def _archive(self, name: str) -> Source | None:
        try:
            return open_source(self._place(name))
        except FormatError:
            return None

    def _in_archive(self, name: str) -> tuple[Source, str] | None:
        """The archive a name lies in, and the rest of the name."""
        for ending in re.finditer(r"\.zip/", name, re.IGNORECASE):  # a folder may be named so, too
            archive = name[: ending.end() - 1]
            if self._file(archive):
                return open_source(self._place(archive)), name[ending.end() :]
        return None

    def _place(self, name: str) -> Path:
        """Where a name lies on disk, names that are not UTF-8 included."""
        place = self._root / name
        if "\\x" not in name or os.path.exists(place):
            return place
        raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda match: bytes.fromhex(match.group(1).decode()), name.encode())
        return self._root / os.fsdecode(raw)


class ZipSource:
    """A zip archive, or a folder inside one; members are read in place, those with ``\\`` between parts, too."""

    def __init__(self, archive: Path, prefix: str = "") -> None:
        self.path = str(archive / prefix) if prefix else str(archive)
        try:
            self._zip = zipfile.ZipFile(archive)
        except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGED:
                raise _cannot_read(archive, error) from error
            raise FormatError(f"{archive.name} is not a readable zip archive: {error}") from error
        within = prefix.rstrip("/") + "/" if prefix else ""
        names = {info.filename.replace("\\", "/"): info for info in self._zip.infolist()}
        self._members = {
            name.removeprefix(within): info
            for name, info in names.items()
            if name.startswith(within) and not name.endswith("/")
        }

    def names(self) -> Iterator[str]:
        yield from sorted(self._members, key=_as_walked)

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
                return _bounded(file.read(count), name)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError, ValueError) as error:
            raise FormatError(f"{name}: damaged in its archive: {error}") from error
        except OSError as error:
            if error.errno not in DAMAGED:
                raise _cannot_read(f"{self.path}/{name}", error) from error
            raise FormatError(f"{name}: damaged in its archive: {error}") from error

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise _absent(name, self.path)
        return self._members[name]


@functools.lru_cache(maxsize=8)
def _open(path: str, _changed: int) -> Source:
    place = Path(path)
    if place.is_dir():
        return FolderSource(place)
    for archive in (place, *place.parents):
        if archive.is_file():
            inside = place.relative_to(archive).as_posix()
            return ZipSource(archive, "" if inside == "." else inside)
    raise ConfigError(f"{path}: no such folder or zip archive")


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a folder, a zip archive, or a folder inside a zip (``archive.zip/folder``)."""
    place = Path(path)
    try:
        there = next((part for part in (place, *place.parents) if part.exists()), None)
        return _open(str(place), there.stat().st_mtime_ns if there else 0)
    except PermissionError as error:
        raise _cannot_read(place, error) from error


def file_size(source: Source, name: str) -> int | None:
    """The bytes of a file; None where there is none."""
    try:
        return source.size(name)
    except FormatError:
        return None


def _listed(folder: Path) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """The files of a folder and its folders, each by name."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:  # to pass over it would look as if its files had been deleted
        raise ConfigError(
            f"{folder}: this folder cannot be listed: {error.strerror or error}. "
            "Let this user read it, or move it out of the source"
        ) from error
    files, folders = [], []
    for entry in found:
        link = entry.is_symlink()
        if os.path.isdir(entry) if link else entry.is_dir():
            folders.append(entry)
        elif (os.path.isfile(entry) or not os.path.exists(entry)) if link else entry.is_file():
            files.append(entry)
    return files, folders


def _real(folder: os.DirEntry[str], parent: str) -> str:
    """Where a folder lies, links resolved, if that is known of its parent."""
    return os.path.realpath(folder) if folder.is_symlink() else os.path.join(parent, folder.name)


def _absent(name: str, path: str) -> FormatError:
    return FormatError(f"{name}: no such file in {path}")


def _cannot_read(place: str | Path, error: OSError) -> Exception:
    """A right that the user lacks ends what is under way; a fault of the disk is a task's to try again."""
    said = f"{place}: cannot be read: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return ConfigError(f"{said}. Let this user read it, or move it out of the source")
    return OSError(error.errno, said)


def _spelled(name: str) -> str:
    """A file name that is not UTF-8, as old archives have them, with its odd bytes as ``\\xfc``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _as_walked(name: str) -> list[tuple[bool, str]]:
    """Sorts names as a folder lists them: its files, then its folders."""
    *folders, file = name.split("/")
    return [*((True, folder) for folder in folders), (False, file)]


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise FormatError(f"{name}: larger than {MAX_FILE_BYTES >> 20} MiB; split it before reading")
    return data


def strip_extension(name: str) -> str:
    """A file's name, with its folders, less its ending; a number with dots, as DICOM files are named by, has none."""
    stem, dot, ending = name.rpartition(".")
    return name if not dot or not stem or "/" in ending or stem.endswith("/") or ending.isdigit() else stem
