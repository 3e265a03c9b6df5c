"""Arrow IPC files that are written atomically and verified by checksums when they are read."""

from __future__ import annotations

import contextlib
import hashlib
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from clocs.core.errors import IntegrityError
from clocs.core.storage.files import atomic_file
from clocs.core.storage.locations import ObjectPath
from clocs.core.storage.object_cache import ShardCopy, local_copy
from clocs.store.checksums import CHUNK_BYTES, Checksums, ChunkHasher, count_chunks, read_checksums

_MAGIC_BYTES = 8
_PREFIX_BYTES = 8
_TRAILER_BYTES = 10


class WrittenArrow(NamedTuple):
    """Name, hashes and size of a written file."""

    name: str
    """Name of the file."""
    sha256: str
    """SHA-256 of the file."""
    num_bytes: int
    """Size in bytes."""
    checksums: Checksums
    """One hash per chunk, (chunks,)."""


def write_arrow(
    path: Path, batch: pa.RecordBatch, *, hash_in_name: bool = False, replace: bool = False
) -> WrittenArrow:
    """Write one record batch as an uncompressed IPC file.

    Args:
        path: The file.
        batch: Its content.
        hash_in_name: True to append a part of the SHA-256 to the name, so that no other content gets it.
        replace: True to overwrite an object in a bucket.
    """
    hashed: _HashingFile

    def final_name() -> str:
        suffix = f"-{hashed.digest.hexdigest()[:16]}" if hash_in_name else ""
        return f"{path.stem}{suffix}{path.suffix}"

    with atomic_file(path, final_name=final_name, replace=replace) as file:
        hashed = _HashingFile(file)
        with pa.PythonFile(hashed, "w") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return WrittenArrow(final_name(), hashed.digest.hexdigest(), hashed.num_bytes, hashed.chunks.checksums())


class _HashingFile:
    """A file that hashes the bytes that are written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.chunks = ChunkHasher()
        self.num_bytes = 0
        self.closed = False

    def write(self, data: Any) -> int:
        piece = memoryview(data)
        self.digest.update(piece)
        self.chunks.update(piece)
        self.num_bytes += piece.nbytes
        return self._file.write(piece)

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the atomic file closes the real one."""
        self.closed = True


def _released_after(buffer: pa.Buffer, release: Callable[[], None]) -> pa.Buffer:
    """Return a buffer of the same bytes. After the last view of it is gone, a function is called."""
    owner = np.frombuffer(buffer, np.uint8)
    weakref.finalize(owner, release).atexit = False
    return pa.py_buffer(owner)


def buffer_view(buffer: pa.Buffer, dtype: npt.DTypeLike, count: int, offset: int = 0) -> npt.NDArray[Any]:
    """View a buffer as an array without a copy. Arrow's own function would import pandas if it is installed."""
    kind = np.dtype(dtype)
    return np.frombuffer(buffer, kind, count, offset * kind.itemsize)


def column_view(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """View a column without nulls as an array."""
    return buffer_view(column.buffers()[-1], dtype, len(column), column.offset)


class CheckedArrow:
    """A memory-mapped IPC file of one batch. Its bytes are compared with their checksums on first use.

    Opening checks the chunks with Arrow's own structure (the messages at the head, the footer at the end), so that
    no pointer comes from damaged bytes. A column is checked when it is first read.

    Args:
        path: The file. Its checksums are stored beside it.
        sha256: SHA-256 of the file according to the manifest; None without a manifest.
        checked: Chunks that were checked before, (chunks,) bool. It is updated in place, so that a store can keep
            it when the file is closed. If all are true, no checksums are needed.
        num_bytes: Size of a shard. Its copy from a bucket is kept as long as it is mapped. None for other files,
            whose copies stay.
    """

    def __init__(
        self,
        path: Path,
        sha256: str | None = None,
        checked: npt.NDArray[np.bool_] | None = None,
        num_bytes: int | None = None,
    ) -> None:
        self.path = path
        try:
            with contextlib.ExitStack() as undo:
                if isinstance(path, ObjectPath) and sha256 is not None and num_bytes is not None:
                    self._local, release = ShardCopy(path, sha256, num_bytes).hold()
                    undo.callback(release)
                else:
                    self._local, release = local_copy(path, sha256), None
                size = self._local.stat().st_size
                self._checked = np.zeros(count_chunks(size), bool) if checked is None else checked
                self._checksums = self._read_checksums(size, sha256)
                with pa.memory_map(str(self._local)) as source:
                    self._bytes: pa.Buffer = source.read_buffer(size)
                if release is not None:
                    self._bytes = _released_after(self._bytes, release)
                undo.pop_all()
            self._check_structure()
            self._batch: pa.RecordBatch = pa.ipc.open_file(pa.BufferReader(self._bytes)).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise IntegrityError(f"{self.name}: cannot be opened ({error}). Run 'clocs data verify'.") from error
        self._touched: set[str] = set()

    def _read_checksums(self, size: int, sha256: str | None) -> Checksums | None:
        """Return the checksums of a file of some size; None if all chunks were checked before."""
        if len(self._checked) != count_chunks(size):
            raise IntegrityError(
                f"{self.name}: has {size:,} bytes, which differs from its manifest. Run 'clocs data verify'."
            )
        if self._checked.all():
            return None
        checksums = read_checksums(self.path, sha256)
        if len(checksums) != len(self._checked):
            raise IntegrityError(
                f"{self.name}: has {size:,} bytes, which differs from its checksums. Run 'clocs data verify'."
            )
        return checksums

    @property
    def name(self) -> str:
        """Folder and name of the file, for messages."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batch."""
        return self._batch.schema

    @property
    def num_rows(self) -> int:
        """Number of rows of the batch."""
        return int(self._batch.num_rows)

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns after checking all their bytes."""
        for name in names:
            if name not in self._touched:
                for buffer in self._batch.column(name).buffers():
                    self._check_buffer(buffer)
                self._touched.add(name)
        return self._batch.select(list(names))

    def column(self, name: str) -> pa.Array:
        """Return a column after checking all its bytes."""
        return self.columns([name]).column(0)

    def list_column(self, name: str) -> tuple[pa.Array, pa.Buffer, int]:
        """Return the checked offsets of a list column, the unchecked buffer of its values and its position in the file.

        The caller checks the parts of the buffer that it reads, by ``check_bytes``.
        """
        column = self._batch.column(name)
        _, offsets, *_, values = column.buffers()
        self._check_buffer(offsets)
        return column.offsets, values, values.address - self._bytes.address

    def check_bytes(self, begin: int, end: int) -> None:
        """Compare the chunks of these bytes of the file with their checksums."""
        first, last = max(begin, 0) // CHUNK_BYTES, min(end - 1, self._bytes.size - 1) // CHUNK_BYTES
        self.check_chunks(np.arange(first, last + 1))

    def check_chunks(self, chunks: npt.NDArray[np.int64]) -> None:
        """Compare unchecked chunks with their checksums. They are read, not mapped: a bad disk raises an error."""
        new = chunks[~self._checked[chunks]]
        if not len(new):
            return
        if self._checksums is None:
            self._checksums = read_checksums(self.path)
        try:
            with open(self._local, "rb", buffering=0) as file:
                for chunk in new.tolist():
                    begin = file.seek(chunk * CHUNK_BYTES)
                    data = file.read(CHUNK_BYTES)
                    if xxhash.xxh3_64_intdigest(data) != int(self._checksums[chunk]):
                        raise IntegrityError(
                            f"{self.name}: bytes {begin:,} to {begin + len(data) - 1:,} do not match their checksum. "
                            "Run 'clocs data verify', then restore the file from a backup or ingest again."
                        )
                    self._checked[chunk] = True
        except OSError as error:
            raise IntegrityError(f"{self.name}: cannot be read ({error.strerror})") from error

    def _check_buffer(self, buffer: pa.Buffer | None) -> None:
        if buffer is not None and buffer.size:
            begin = buffer.address - self._bytes.address
            self.check_bytes(begin, begin + buffer.size)

    def _check_structure(self) -> None:
        """Check the schema and record-batch messages at the head, and the footer at the end."""
        content = memoryview(self._bytes)
        position = _MAGIC_BYTES
        for _ in ("schema", "record batch"):
            self.check_bytes(position, position + _PREFIX_BYTES)
            length = int.from_bytes(content[position + 4 : position + _PREFIX_BYTES], "little")
            self.check_bytes(position, position + _PREFIX_BYTES + length)
            position += _PREFIX_BYTES + length
        end = len(content)
        self.check_bytes(end - _TRAILER_BYTES, end)
        footer_length = int.from_bytes(content[end - _TRAILER_BYTES : end - 6], "little")
        self.check_bytes(end - _TRAILER_BYTES - footer_length, end)
