"""Arrow IPC files, written atomically and hashed on the way."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from clocs.core.files import atomic_file


def write_arrow(path: Path, batch: pa.RecordBatch) -> tuple[str, int]:
    """Write one batch as an uncompressed IPC file; its sha256 and size in bytes."""
    with atomic_file(path) as file:
        hashed = _Hashing(file)
        with pa.PythonFile(hashed, "w") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    return hashed.digest.hexdigest(), hashed.size


class _Hashing:
    """A file that hashes what passes through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        piece = memoryview(data)
        self.digest.update(piece)
        self.size += piece.nbytes
        return self._file.write(piece)

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """The atomic file closes the real one."""
        self.closed = True
