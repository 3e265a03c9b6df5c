"""Writing: files that are there whole or not at all, canonical JSON, hashes."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from clocs.core.errors import IntegrityError, StoreError

reached: Callable[[str, Path], None] = lambda step, path: None  # noqa: E731
"""Called at each step of a durable write; tests replace it to stop the process there."""

_TEMPORARY = ".partial"
_LOCK = ".lock"
_CHUNK = 1 << 20


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write; it takes its name only when whole and on disk. A failure leaves nothing new.

    The temporary name is derived from the final one, so a repeated attempt overwrites what a killed
    one left behind. Errors of what the caller reads meanwhile stay what they are.
    """
    with _failing_to_write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        reached("before write", path)
        partial = path.with_name(path.name + _TEMPORARY)
        file = _held(partial)
    try:
        with _failing_to_write(path):
            file.truncate(0)
        yield cast(IO[bytes], _Written(file, path))
        with _failing_to_write(path):
            file.flush()
            os.fsync(file.fileno())
            reached("after write", path)
            os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    finally:
        with contextlib.suppress(OSError):  # what could not be flushed was said
            file.close()
    with _failing_to_write(path, "It is whole, but may not outlast a power cut."):
        reached("after rename", path)
        _sync_folder(path.parent)


@contextlib.contextmanager
def _failing_to_write(path: Path, outcome: str = "Nothing was committed.") -> Iterator[None]:
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
        file = open(path, "ab")  # noqa: SIM115
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_at(file, path):
            return file
        file.close()  # renamed while this one waited


def _is_at(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file atomically."""
    with atomic_file(path) as file:
        file.write(data)


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


def damage(path: Path, sha256: str, size: int | None) -> str:
    """What is wrong with a file of this hash and size, all of its bytes read; empty: nothing."""
    try:
        found = path.stat().st_size
        if size is not None and found != size:
            return f"{found} bytes, manifest says {size}"
        return "" if file_hash(path) == sha256 else "content differs from its recorded hash"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def lies_in(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or below it, links followed."""
    return path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def exclusive(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder for writing; a second writer is refused, or waits its turn. The hold ends with the process.

    A folder that was made for it, and in which nothing was written before a failure, goes again.
    """
    new = not folder.exists()
    with _locked(folder, wait):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                if new and os.listdir(folder) == [_LOCK]:
                    (folder / _LOCK).unlink()
                    folder.rmdir()
            raise


def _locked(folder: Path, wait: bool) -> IO[str]:
    """A folder's lock, held until it is closed."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / _LOCK, "a")  # noqa: SIM115
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


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
