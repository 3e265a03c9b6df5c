"""A disk that fails at its n-th call, behind the functions with which clocs writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from clocs.core import files


class Disk:
    """Counts every call that could fail, and fails at one of them."""

    def __init__(self, fail_at: int = 0, code: int = 0) -> None:
        self.calls = 0
        self.kinds: list[str] = []
        self._fail_at = fail_at
        self._code = code

    def call(self, kind: str) -> bool:
        """Count a call; whether it is the one that fails."""
        self.calls += 1
        self.kinds.append(kind)
        return self.calls == self._fail_at

    def error(self) -> OSError:
        return OSError(self._code, os.strerror(self._code))

    def fail_or(self, kind: str, function: Any, *given: Any) -> Any:
        if self.call(kind):
            raise self.error()
        return function(*given)

    def open(self, path: Any, mode: str = "r") -> Any:
        if mode == "rb":
            return open(path, mode)
        return File(self, self.fail_or("open", open, path, mode))


class File:
    """A file on such a disk; half of what fails to be written is written."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: Any) -> int:
        if self._disk.call("write"):
            self._file.write(memoryview(data)[: len(data) // 2])
            raise self._disk.error()
        return int(self._file.write(data))

    def flush(self) -> None:
        self._disk.fail_or("flush", self._file.flush)

    def truncate(self, size: int) -> None:
        self._disk.fail_or("truncate", self._file.truncate, size)

    def __enter__(self) -> File:
        self._file.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._file.__exit__(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def on(disk: Disk) -> Iterator[None]:
    """Write through such a disk."""
    fsync, replace, mkdir = os.fsync, os.replace, Path.mkdir
    with (
        mock.patch.object(files, "open", disk.open, create=True),
        mock.patch.object(os, "fsync", lambda handle: disk.fail_or("fsync", fsync, handle)),
        mock.patch.object(os, "replace", lambda here, there: disk.fail_or("replace", replace, here, there)),
        mock.patch.object(Path, "mkdir", lambda path, **given: disk.fail_or("mkdir", lambda: mkdir(path, **given))),
    ):
        yield
