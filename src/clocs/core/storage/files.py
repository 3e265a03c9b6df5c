"""Durable writes to disks and buckets: atomic and appending writes, and locks of folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

from clocs.core.errors import StoreError
from clocs.core.storage.disk import Disk
from clocs.core.storage.file_locks import lock_file
from clocs.core.storage.locations import ObjectPath
from clocs.core.storage.object_writes import (
    check_conditional_writes,
    create_object,
    replace_object,
    temporary_upload,
    update_object,
)

disk = Disk()
"""The disk that all durable writes use. Tests replace it by one that fails or records."""
on_write_step: Callable[[str, Path], None] = lambda step, path: None  # noqa: E731
"""Callback for each step of a durable write. Tests replace it to stop the process at a step."""

TEMPORARY: Final = ".partial"
"""End of the names of unfinished files."""
_LOCK = ".lock"
RERUN_HINT = "Fix this and run the same command again to continue."
"""End of the message for files of work that can be continued."""


@contextlib.contextmanager
def atomic_file(
    path: Path, *, final_name: Callable[[], str] | None = None, replace: bool = False
) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes its final name once it is complete and on disk, or in its bucket.

    A failure leaves no new file. The temporary name is derived from the path, so a repeated attempt overwrites the
    remains of a killed one. Errors of the caller's own code are not changed.

    Args:
        path: The final name. Missing folders are created.
        final_name: Function that returns another final name when the file is complete, such as a hash of its content.
        replace: True to overwrite an object. Files on disk are always replaced.

    Yields:
        The open file.

    Raises:
        ExistsError: The object exists and has other bytes.
        StoreError: The file cannot be written.
    """
    with _object_file(path, final_name, replace) if isinstance(path, ObjectPath) else _disk_file(path, final_name) as f:
        yield f


@contextlib.contextmanager
def _object_file(path: ObjectPath, final_name: Callable[[], str] | None, replace: bool) -> Iterator[IO[bytes]]:
    on_write_step("before write", path)
    with temporary_upload() as file:
        yield cast(IO[bytes], _CheckedFile(file, path))
        with _write_errors(path):
            file.flush()
            final = path if final_name is None else path.with_name(final_name())
            on_write_step("after write", final)
            (replace_object if replace else create_object)(final, Path(file.name))
            on_write_step("after rename", final)


@contextlib.contextmanager
def _disk_file(path: Path, final_name: Callable[[], str] | None) -> Iterator[IO[bytes]]:
    with _write_errors(path):
        make_folders(path.parent)
        on_write_step("before write", path)
        partial = temporary_path(path)
        file = _open_locked(partial)
    try:
        with _write_errors(path):
            file.truncate(0)
        yield cast(IO[bytes], _CheckedFile(file, path))
        with _write_errors(path):
            disk.sync(file)
            path = path if final_name is None else path.with_name(final_name())
            on_write_step("after write", path)
            disk.rename(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(partial)
        raise
    finally:
        with contextlib.suppress(OSError):  # a failed flush is already reported
            file.close()
    with _write_errors(path, "It is complete, but may be lost in a power failure."):
        on_write_step("after rename", path)
        disk.sync_folder(path.parent)


def temporary_path(path: Path) -> Path:
    """Return the name of a file until it is complete."""
    return path.with_name(path.name + TEMPORARY)


def make_folders(folder: Path) -> None:
    """Create a folder and its missing parents, and sync the entry of each new one.

    Without the sync, a power loss could remove a new folder together with the synced files in it. A bucket has no
    folders.

    Args:
        folder: The folder.
    """
    if isinstance(folder, ObjectPath):
        return
    missing: list[Path] = []
    for candidate in (folder, *folder.parents):
        if candidate.is_dir():
            break
        missing.append(candidate)
    for new in reversed(missing):
        try:
            disk.make_folder(new)
        except FileExistsError:
            if not new.is_dir():  # otherwise another process created it
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(new)) from None
        disk.sync_folder(new.parent)


@contextlib.contextmanager
def _write_errors(path: Path, outcome: str = "Nothing was committed.") -> Iterator[None]:
    """Turn an ``OSError`` into a ``StoreError`` that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}. {outcome}") from error


class _CheckedFile:
    """A temporary file that reports write errors under its final name."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path

    def write(self, data: Any) -> int:
        with _write_errors(self._path):
            return self._file.write(data)

    def flush(self) -> None:
        with _write_errors(self._path):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _open_locked(path: Path) -> IO[bytes]:
    """Open a file and lock it until it is closed.

    A worker of a killed run may still be writing the same file, so this waits until it ends.
    """
    while True:
        file = disk.open(path)
        lock_file(file)
        if _is_same_file(file, path):
            return file
        file.close()  # the other process renamed it meanwhile


def _is_same_file(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def write_bytes(path: Path, data: bytes, *, replace: bool = False) -> str:
    """Write a file atomically.

    Args:
        path: The file. Missing folders are created.
        data: Its bytes.
        replace: True to overwrite an object. Files on disk are always replaced.

    Returns:
        The SHA-256 hash of the bytes.

    Raises:
        ExistsError: The object exists and has other bytes.
        StoreError: The file cannot be written.
    """
    with atomic_file(path, replace=replace) as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def update_bytes(path: Path, change: Callable[[bytes | None], bytes]) -> None:
    """Replace the content of a file by a function of its content, so that no concurrent change is lost.

    Args:
        path: The file. The folder of a file on disk is locked by the caller.
        change: Function from the content, or None without a file, to the new content. It may be called again.

    Raises:
        StoreError: The file cannot be written.
    """
    if isinstance(path, ObjectPath):
        on_write_step("before write", path)
        update_object(path, change)
        on_write_step("after rename", path)
    else:
        write_bytes(path, change(path.read_bytes() if path.exists() else None))


def append_bytes(path: Path, data: bytes) -> None:
    """Append to a file in an existing folder. The bytes survive a power loss only after :func:`sync_file`."""
    with _write_errors(path, RERUN_HINT), disk.open(path) as file:
        file.write(data)


def sync_file(path: Path) -> None:
    """Flush an appended file and its folder entry to the disk."""
    with _write_errors(path, RERUN_HINT), disk.open(path) as file:
        disk.sync(file)
        disk.sync_folder(path.parent)


def truncate_file(path: Path, size: int) -> None:
    """Remove all bytes of a file after the first ``size``."""
    with _write_errors(path, RERUN_HINT), disk.open(path) as file:
        file.truncate(size)


def remove_file(path: Path) -> None:
    """Remove a file if it exists."""
    with _write_errors(path, RERUN_HINT), contextlib.suppress(FileNotFoundError):
        on_write_step("before remove", path)
        if isinstance(path, ObjectPath):
            path.opened.delete(path.key)
        else:
            disk.remove(path)


def make_temporary(path: Path) -> Path:
    """Give a file its temporary name, so that it counts as unfinished, and return that name.

    Objects cannot be renamed, so an object is removed at once.
    """
    if isinstance(path, ObjectPath):
        remove_file(path)
        return path
    partial = temporary_path(path)
    with _write_errors(path, RERUN_HINT):
        on_write_step("before rename", path)
        disk.rename(path, partial)
        disk.sync_folder(path.parent)
    return partial


def sync_folder(folder: Path) -> None:
    """Flush removed and renamed files of a folder to the disk. A bucket needs none of it."""
    if isinstance(folder, ObjectPath):
        return
    with _write_errors(folder, RERUN_HINT):
        disk.sync_folder(folder)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is a folder or inside it, with links resolved."""
    if isinstance(path, ObjectPath) or isinstance(folder, ObjectPath):
        return path == folder or folder in path.parents
    return path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder for writing. The lock ends with the process.

    A new folder is removed again if the block fails before it writes a file. A folder in a bucket has no lock: objects
    are created only if they do not exist, so of two writers one gets an error.

    Args:
        folder: The folder. It is created if it does not exist.
        wait: Wait for another writer to finish instead of raising an error.

    Yields:
        None.

    Raises:
        StoreError: Another process has locked the folder, or it cannot be written.
    """
    if isinstance(folder, ObjectPath):
        check_conditional_writes(folder)
        yield
        return
    is_new = not folder.exists()
    with _folder_lock(folder, wait):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if is_new and os.listdir(folder) == [_LOCK]:
                    disk.remove(folder / _LOCK)
                    disk.remove_folder(folder)
            raise


def _folder_lock(folder: Path, wait: bool) -> IO[bytes]:
    """Return the lock file of a folder, locked until it is closed."""
    while True:
        try:
            make_folders(folder)
            lock = disk.open(folder / _LOCK)
        except OSError as error:
            raise StoreError(f"Cannot write to {folder}: {error.strerror or error}") from error
        try:
            lock_file(lock, wait=wait)
        except BlockingIOError:
            lock.close()
            raise StoreError(f"Another process is writing to {folder}. Wait for it or choose another folder.") from None
        if _is_same_file(lock, folder / _LOCK):
            return lock
        lock.close()  # the process that created it failed and removed it
