"""The files of an upload, which are in memory only: a header that names a file elsewhere finds none."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from clocs.core.errors import FormatError
from clocs.core.sources import Source, ZipSource

PLACE = "the upload"


class MemorySource:
    """Files by name."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.path = PLACE
        self._files = files

    def names(self) -> Iterator[str]:
        yield from sorted(self._files)

    def exists(self, name: str) -> bool:
        return name in self._files

    def size(self, name: str) -> int:
        return len(self._files[name])

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FormatError(f"{name}: no such file in {self.path}")
        return self._files[name]

    def head(self, name: str, count: int) -> bytes:
        return self.read(name)[:count]


class _Archive(io.BytesIO):
    """What ``ZipSource`` needs of a path: that it can be opened, and a name for its messages."""

    name = PLACE

    def __str__(self) -> str:
        return PLACE


def upload_source(files: Mapping[str, bytes]) -> Source:
    """The files as they are, or those in the one archive, which is read in place."""
    archives = [name for name in files if name.lower().endswith(".zip")]
    if not archives:
        return MemorySource(files)
    if len(files) > 1:
        raise FormatError("send a zip archive alone, with all files of one recording in it")
    return ZipSource(cast(Path, _Archive(files[archives[0]])))
