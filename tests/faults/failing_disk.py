"""A disk that fails at its n-th call, as a replacement for the disk of clocs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from unittest import mock

from clocs.core.storage import disk, files

Result = TypeVar("Result")


class Disk(disk.Disk):
    """Counts every call that could fail, and fails at one of them. Calls that clean up are not counted."""

    def __init__(self, fail_at: int = 0, code: int = 0) -> None:
        self.calls = 0
        self.kinds: list[str] = []
        self._fail_at = fail_at
        self._code = code

    def fails(self, kind: str) -> bool:
        """Count a call and return whether it is the one that fails."""
        self.calls += 1
        self.kinds.append(kind)
        return self.calls == self._fail_at

    def error(self) -> OSError:
        return OSError(self._code, os.strerror(self._code))

    def fail_or(self, kind: str, function: Callable[..., Result], *given: Any) -> Result:
        if self.fails(kind):
            raise self.error()
        return function(*given)

    def open(self, path: Path) -> IO[bytes]:
        return cast(IO[bytes], File(self, self.fail_or("open", super().open, path)))

    def sync(self, file: IO[bytes]) -> None:
        self.fail_or("sync", super().sync, file)

    def rename(self, source: Path, target: Path) -> None:
        self.fail_or("rename", super().rename, source, target)

    def make_folder(self, folder: Path) -> None:
        self.fail_or("make_folder", super().make_folder, folder)

    def sync_folder(self, folder: Path) -> None:
        self.fail_or("sync_folder", super().sync_folder, folder)


class File:
    """A file on such a disk. A failing write still writes half of its bytes."""

    def __init__(self, disk: Disk, file: Any) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: Any) -> int:
        if self._disk.fails("write"):
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
def use_disk(disk: Disk) -> Iterator[None]:
    """Replace the disk of clocs by a failing one."""
    with mock.patch.object(files, "disk", disk):
        yield
