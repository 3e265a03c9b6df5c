"""Durable files: written whole or not at all, or appended to and synced; canonical JSON; hashes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from clocs.core.disk import Disk
from clocs.core.errors import IntegrityError, StoreError

disk = Disk()
"""What all durable writes go through; tests replace it by one that fails, or that records."""
on_write_step: Callable[[str, Path], None] = lambda step, path: None  # noqa: E731
"""Called at each step of a durable write; tests replace it to stop the process there."""

_TEMPORARY = ".partial"
_LOCK = ".lock"
_CHUNK = 1 << 20
RERUN_HINT = "Fix this, and the same command continues."
"""What an error says of a file that belongs to work which can be continued."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only when it is whole and on disk. A failure leaves nothing new.

    The temporary name is derived from the final one, so a repeated attempt overwrites what a killed
    one left behind. Errors of what the caller reads meanwhile stay what they are.
    """
    with _failing_to_write(path):
        make_folders(path.parent)
        on_write_step("before write", path)
        partial = path.with_name(path.name + _TEMPORARY)
        file = _held(partial)
    try:
        with _failing_to_write(path):
            file.truncate(0)
        yield cast(IO[bytes], _Written(file, path))
        with _failing_to_write(path):
            disk.sync(file)
            on_write_step("after write", path)
            disk.rename(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(partial)
        raise
    finally:
        with contextlib.suppress(OSError):  # a failed flush was reported
            file.close()
    with _failing_to_write(path, "It is whole, but may not outlast a power cut."):
        on_write_step("after rename", path)
        disk.sync_folder(path.parent)


def make_folders(folder: Path) -> None:
    """Make a folder and the missing ones above it, and sync the entry of each that is new.

    Without that, a power loss could take a new folder away together with the synced files in it.
    """
    missing: list[Path] = []
    for each in (folder, *folder.parents):
        if each.is_dir():
            break
        missing.append(each)
    for new in reversed(missing):
        try:
            disk.make_folder(new)
        except FileExistsError:
            if not new.is_dir():  # else another process was faster
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(new)) from None
        disk.sync_folder(new.parent)


@contextlib.contextmanager
def _failing_to_write(path: Path, outcome: str = "Nothing was committed.") -> Iterator[None]:
    """Raise errors of the disk as a StoreError that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}. {outcome}") from error


class _Written:
    """An open file whose failures to write name the file it is to become."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path

    def write(self, data: Any) -> int:
        with _failing_to_write(self._path):
            return self._file.write(data)

    def flush(self) -> None:
        with _failing_to_write(self._path):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _held(path: Path) -> IO[bytes]:
    """An open file that one process holds until it is closed.

    A run that was killed may have left a worker behind, still writing this very file: wait for its end.
    """
    while True:
        file = disk.open(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_at(file, path):
            return file
        file.close()  # renamed while this one waited


def _is_at(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def write_bytes(path: Path, data: bytes) -> str:
    """Write a small file atomically and return the SHA-256 of its bytes."""
    with atomic_file(path) as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def append_bytes(path: Path, data: bytes) -> None:
    """Append to a file whose folder exists. The bytes outlast a power loss only after :func:`sync_file`."""
    with _failing_to_write(path, RERUN_HINT), disk.open(path) as file:
        file.write(data)


def sync_file(path: Path) -> None:
    """Force a file that was appended to, and its name, to the disk."""
    with _failing_to_write(path, RERUN_HINT), disk.open(path) as file:
        disk.sync(file)
        disk.sync_folder(path.parent)


def truncate_file(path: Path, size: int) -> None:
    """Drop all bytes of a file after the first ``size``."""
    with _failing_to_write(path, RERUN_HINT), disk.open(path) as file:
        file.truncate(size)


def remove_file(path: Path) -> None:
    """Remove a file; one that is missing is no error."""
    with _failing_to_write(path, RERUN_HINT), contextlib.suppress(FileNotFoundError):
        disk.remove(path)


def canonical_json(value: Any) -> bytes:
    """The one way a value is written as JSON here, so that equal values are equal bytes."""
    return (json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def content_hash(value: Any) -> str:
    """sha256 of a value's canonical JSON: the name of a thing by what goes into it."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def seal(body: dict[str, Any]) -> bytes:
    """JSON that carries its own hash."""
    return canonical_json({**body, "sha256": content_hash(body)})


def unseal(raw: bytes, name: str) -> dict[str, Any]:
    """What was sealed. Only the very bytes are accepted, so that no flipped bit goes unseen."""
    try:
        body = json.loads(raw)
        del body["sha256"]
        whole = seal(body) == raw
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(f"{name}: cannot be read ({type(error).__name__}); its bytes have changed") from error
    if not whole:
        raise IntegrityError(f"{name}: does not match its own hash")
    return dict(body)


def file_hash(path: Path) -> str:
    """sha256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def find_damage(path: Path, sha256: str, size: int | None) -> str:
    """What is wrong with a file of this hash and size, all of its bytes read; empty: nothing."""
    try:
        found = path.stat().st_size
        if size is not None and found != size:
            return f"{found} bytes, manifest says {size}"
        return "" if file_hash(path) == sha256 else "content differs from its recorded hash"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or below it, links followed."""
    return path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder for writing; a second writer is refused, or waits its turn. The hold ends with the process.

    A folder that was made for it is removed again if a failure comes before anything was written there.
    """
    new = not folder.exists()
    with _locked(folder, wait):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if new and os.listdir(folder) == [_LOCK]:
                    disk.remove(folder / _LOCK)
                    disk.remove_folder(folder)
            raise


def _locked(folder: Path, wait: bool) -> IO[bytes]:
    """Return a folder's lock, held until it is closed."""
    while True:
        try:
            make_folders(folder)
            lock = disk.open(folder / _LOCK)
        except OSError as error:
            raise StoreError(f"cannot write to {folder}: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StoreError(f"another process is writing to {folder}; wait for it or choose another folder") from None
        if _is_at(lock, folder / _LOCK):
            return lock
        lock.close()  # its maker failed, and took it away
