"""Reading: a folder and a zip archive look alike, and nothing is unpacked."""

from __future__ import annotations

import errno
import functools
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from clocs.core.errors import ConfigError, FormatError

MAX_FILE_BYTES = 1 << 30
"""A single file over 1 GiB is refused: no ECG format here needs more, and memory must stay bounded."""


class Source(Protocol):
    """A tree of files, named by their path within it, with ``/`` between parts."""

    path: str

    def names(self) -> Iterator[str]:
        """Every file, in a fixed order."""
        ...

    def exists(self, name: str) -> bool: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str) -> bytes: ...

    def head(self, name: str, count: int) -> bytes:
        """The first ``count`` bytes."""
        ...


class FolderSource:
    """A directory on disk; a zip archive in it is one more folder, ``archive.zip/file``.

    An archive that cannot be opened is listed as the file it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._root = path

    def names(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self._root):
            folders.sort()
            prefix = PurePosixPath(Path(folder).relative_to(self._root).as_posix())
            for file in sorted(files):
                name = _spelled(str(prefix / file))
                archive = self._archive(name) if file.lower().endswith(".zip") else None
                if archive is None:
                    yield name
                else:
                    yield from (f"{name}/{member}" for member in archive.names())

    def exists(self, name: str) -> bool:
        place = self._in_archive(name)
        return place[0].exists(place[1]) if place else self._place(name).is_file()

    def size(self, name: str) -> int:
        place = self._in_archive(name)
        return place[0].size(place[1]) if place else self._place(name).stat().st_size

    def read(self, name: str) -> bytes:
        return self.head(name, MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if place := self._in_archive(name):
            return place[0].head(place[1], count)
        try:
            with open(self._place(name), "rb") as file:  # which takes memory for all it is asked to read
                return _bounded(file.read(min(count, os.fstat(file.fileno()).st_size)), name)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError) as error:
            # Any other OSError is the disk's fault, not the file's, and must not pass for one.
            raise FormatError(f"{name}: no such file in {self.path}") from error

    def _archive(self, name: str) -> Source | None:
        try:
            return open_source(self._place(name))
        except FormatError:
            return None

    def _in_archive(self, name: str) -> tuple[Source, str] | None:
        """The archive a name lies in, and the rest of the name."""
        at = name.lower().find(".zip/")
        archive = self._place(name[: at + 4])
        if at < 0 or not archive.is_file():
            return None
        return open_source(archive), name[at + 5 :]

    def _place(self, name: str) -> Path:
        """Where a name lies on disk, names that are not UTF-8 included."""
        place = self._root / name
        if "\\x" not in name or place.exists():
            return place
        raw = re.sub(rb"\\x([89a-f][0-9a-f])", lambda match: bytes.fromhex(match.group(1).decode()), name.encode())
        return self._root / os.fsdecode(raw)


class ZipSource:
    """A zip archive, or a folder inside one; members are read in place."""

    def __init__(self, archive: Path, prefix: str = "") -> None:
        self.path = str(archive / prefix) if prefix else str(archive)
        try:
            self._zip = zipfile.ZipFile(archive)
        except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
            raise FormatError(f"{archive.name} is not a readable zip archive: {error}") from error
        self._prefix = prefix.rstrip("/") + "/" if prefix else ""
        self._members = {
            info.filename.removeprefix(self._prefix): info
            for info in self._zip.infolist()
            if not info.is_dir() and info.filename.startswith(self._prefix)
        }

    def names(self) -> Iterator[str]:
        yield from sorted(self._members, key=_as_walked)

    def exists(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        return self._members[name].file_size

    def read(self, name: str) -> bytes:
        return self.head(name, MAX_FILE_BYTES + 1)

    def head(self, name: str, count: int) -> bytes:
        if name not in self._members:
            raise FormatError(f"{name}: no such file in {self.path}")
        try:
            with self._zip.open(self._members[name]) as file:
                return _bounded(file.read(count), name)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError) as error:
            raise FormatError(f"{name}: damaged in its archive: {error}") from error
        except OSError as error:
            if error.errno not in (None, errno.EINVAL):  # bz2 gives none, a seek to nowhere EINVAL
                raise
            raise FormatError(f"{name}: damaged in its archive: {error}") from error


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
    there = next((part for part in (place, *place.parents) if part.exists()), None)
    return _open(str(place), there.stat().st_mtime_ns if there else 0)


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


def without_ending(name: str) -> str:
    """A file's name, with its folders, less its ending; a number with dots, as DICOM files are named by, has none."""
    stem, dot, ending = name.rpartition(".")
    return name if not dot or not stem or "/" in ending or stem.endswith("/") or ending.isdigit() else stem
