"""Arrow IPC files: written atomically with their hashes, and read through checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from clocs.core.errors import IntegrityError
from clocs.core.files import atomic_file
from clocs.store.checksums import CHUNK_BYTES, Checksums, ChunkHasher, count_chunks, read_checksums

_MAGIC_BYTES = 8
_PREFIX_BYTES = 8
_TRAILER_BYTES = 10


class WrittenArrow(NamedTuple):
    """Hashes and size of a file that was written."""

    sha256: str
    num_bytes: int
    checksums: Checksums


def write_arrow(path: Path, batch: pa.RecordBatch) -> WrittenArrow:
    """Write one batch as an uncompressed IPC file."""
    with atomic_file(path) as file:
        hashed = _HashingFile(file)
        with pa.PythonFile(hashed, "w") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return WrittenArrow(hashed.digest.hexdigest(), hashed.num_bytes, hashed.chunks.checksums())


class _HashingFile:
    """A file that hashes what is written to it."""

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


class CheckedArrow:
    """A memory-mapped IPC file of one batch whose bytes are compared with their checksums on first touch.

    Opening checks the chunks that hold Arrow's own structure (the messages at the head, the footer at the end), so
    that no pointer comes from damaged bytes. A column is checked when it is first asked for.

    Args:
        path: The file; its checksums lie beside it.
        sha256: Its SHA-256 according to a manifest. None where there is no manifest.
        checked: Which chunks were checked before, (chunks,) bool. It is updated in place, so that a store can keep
            it when the file is closed. All true: nothing is checked, and no checksums are needed.
    """

    def __init__(self, path: Path, sha256: str | None = None, checked: npt.NDArray[np.bool_] | None = None) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            self._checked = np.zeros(count_chunks(size), bool) if checked is None else checked
            if len(self._checked) != count_chunks(size):
                raise IntegrityError(f"{self.name}: has {size:,} bytes, not as many as its manifest states")
            self._checksums = None if self._checked.all() else read_checksums(path, sha256)
            if self._checksums is not None and len(self._checksums) != len(self._checked):
                raise IntegrityError(f"{self.name}: has {size:,} bytes, not as many as its checksums cover")
            with pa.memory_map(str(path)) as source:
                self._bytes: pa.Buffer = source.read_buffer(size)
                self._check_structure()
                self._batch: pa.RecordBatch = pa.ipc.open_file(pa.BufferReader(self._bytes)).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise IntegrityError(f"{self.name}: cannot be opened ({error}); run 'clocs data verify'") from error
        self._touched: set[str] = set()

    @property
    def name(self) -> str:
        """Folder and name of the file, as errors state it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def schema(self) -> pa.Schema:
        return self._batch.schema

    @property
    def num_rows(self) -> int:
        return int(self._batch.num_rows)

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns, all their bytes checked."""
        for name in names:
            if name not in self._touched:
                for buffer in self._batch.column(name).buffers():
                    self._check_buffer(buffer)
                self._touched.add(name)
        return self._batch.select(list(names))

    def column(self, name: str) -> pa.Array:
        """Return a column, all its bytes checked."""
        return self.columns([name]).column(0)

    def list_column(self, name: str) -> tuple[pa.Array, pa.Buffer, int]:
        """Return the checked offsets of a list column, the unchecked buffer of its values and where that begins.

        The caller checks the parts of the buffer that it reads: ``check_bytes``.
        """
        column = self._batch.column(name)
        _, offsets, *_, values = column.buffers()
        self._check_buffer(offsets)
        return column.offsets, values, values.address - self._bytes.address

    def check_bytes(self, begin: int, end: int) -> None:
        """Compare the chunks that hold these bytes of the file with their checksums."""
        first, last = max(begin, 0) // CHUNK_BYTES, min(end - 1, self._bytes.size - 1) // CHUNK_BYTES
        self.check_chunks(np.arange(first, last + 1))

    def check_chunks(self, chunks: npt.NDArray[np.int64]) -> None:
        """Compare chunks with their checksums, each once. They are read, not mapped: a bad disk gives an error."""
        new = chunks[~self._checked[chunks]]
        if not len(new):
            return
        if self._checksums is None:
            self._checksums = read_checksums(self.path)
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                for chunk in new.tolist():
                    data = os.pread(handle, CHUNK_BYTES, chunk * CHUNK_BYTES)
                    if xxhash.xxh3_64_intdigest(data) != int(self._checksums[chunk]):
                        begin = chunk * CHUNK_BYTES
                        raise IntegrityError(
                            f"{self.name}: bytes {begin:,} to {begin + len(data) - 1:,} do not match their checksum; "
                            "run 'clocs data verify', then restore the file from a backup or ingest again"
                        )
                    self._checked[chunk] = True
            finally:
                os.close(handle)
        except OSError as error:
            raise IntegrityError(f"{self.name}: cannot be read ({error.strerror})") from error

    def _check_buffer(self, buffer: pa.Buffer | None) -> None:
        if buffer is not None and buffer.size:
            begin = buffer.address - self._bytes.address
            self.check_bytes(begin, begin + buffer.size)

    def _check_structure(self) -> None:
        """Check the schema and record-batch messages at the head, and the footer at the end."""
        content = memoryview(self._bytes)
        at = _MAGIC_BYTES
        for _ in ("schema", "record batch"):
            self.check_bytes(at, at + _PREFIX_BYTES)
            length = int.from_bytes(content[at + 4 : at + _PREFIX_BYTES], "little")
            self.check_bytes(at, at + _PREFIX_BYTES + length)
            at += _PREFIX_BYTES + length
        end = len(content)
        self.check_bytes(end - _TRAILER_BYTES, end)
        footer = int.from_bytes(content[end - _TRAILER_BYTES : end - 6], "little")
        self.check_bytes(end - _TRAILER_BYTES - footer, end)
