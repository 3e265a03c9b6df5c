"""Checksums of shards, which detect damage when data is read.

Each shard ``X.arrow`` has a file ``X.checksums.json`` with its SHA-256 and one XXH3 hash per chunk of 64 KiB. Readers
compare a chunk with its hash on first use. Checksums are derived from the shards: they are not part of the manifest
and do not change the hash of a store.
"""

from __future__ import annotations

import base64
import hashlib
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.hashes import read_chunks, seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.core.storage.object_cache import local_copy

CHUNK_BYTES = 1 << 16
SUFFIX = ".checksums.json"
Checksums = npt.NDArray[np.uint64]


class ChunkHasher:
    """Hash a stream of bytes chunk by chunk."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()
        self._room = CHUNK_BYTES
        self._done: list[int] = []

    def update(self, data: memoryview) -> None:
        """Add the next bytes of the stream."""
        data = data.cast("B")
        while data.nbytes:
            piece, data = data[: self._room], data[self._room :]
            self._hash.update(piece)
            self._room -= piece.nbytes
            if not self._room:
                self._done.append(self._hash.intdigest())
                self._hash.reset()
                self._room = CHUNK_BYTES

    def checksums(self) -> Checksums:
        """Return the hash of every chunk; the last one may be short."""
        rest = [self._hash.intdigest()] if self._room < CHUNK_BYTES else []
        return np.array([*self._done, *rest], np.uint64)


def count_chunks(num_bytes: int | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of chunks of files of these sizes."""
    return np.asarray(-(-np.asarray(num_bytes, np.int64) // CHUNK_BYTES))


class CheckedChunks:
    """Flags of the checked chunks of a store's files, in memory that forked workers share.

    Args:
        sizes: Size of each file in bytes, in the order of the store's shards.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        counts = count_chunks(np.fromiter(sizes, np.int64))
        self._first = np.concatenate([[0], np.cumsum(counts)])
        self._flags = np.frombuffer(mmap.mmap(-1, max(1, int(self._first[-1]))), bool)

    def skip(self) -> None:
        """Treat all chunks as checked."""
        self._flags[:] = True

    def of_file(self, number: int) -> npt.NDArray[np.bool_]:
        """Return the flags of one file, as a view."""
        return self._flags[self._first[number] : self._first[number + 1]]

    def missing(
        self, files: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], num_bytes: int
    ) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Iterate over the files with unchecked chunks under these windows, with the indices of the chunks."""
        base = self._first[files]
        first, last = base + begin // CHUNK_BYTES, base + (begin + (num_bytes - 1)) // CHUNK_BYTES
        unchecked = []
        for offset in range(int((last - first).max(initial=0)) + 1):
            chunks = np.minimum(first + offset, last)
            flags = self._flags[chunks]
            if not flags.all():
                unchecked.append(chunks[~flags])
        if unchecked:
            chunks = np.unique(np.concatenate(unchecked))
            owners = np.searchsorted(self._first, chunks, "right") - 1
            for number in np.unique(owners).tolist():
                yield number, chunks[owners == number] - self._first[number]

    def covers(self, number: int, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> bool:
        """Return whether every chunk of these byte ranges of a file was checked."""
        checked = np.concatenate([[0], np.cumsum(self.of_file(number))])
        first, stop = begin // CHUNK_BYTES, (end - 1) // CHUNK_BYTES + 1
        return bool((checked[stop] - checked[first] == stop - first).all())


def checksums_path(shard: Path) -> Path:
    """Return the path of the checksums of a shard."""
    return shard.with_suffix(SUFFIX)


def write_checksums(shard: Path, sha256: str, checksums: Checksums, *, replace: bool = False) -> None:
    """Write the checksums of a shard. With ``replace``, those of an object in a bucket are overwritten."""
    body = {
        "shard_sha256": sha256,
        "chunk_bytes": CHUNK_BYTES,
        "xxh3_64": base64.b64encode(checksums.astype("<u8").tobytes()).decode(),
    }
    write_bytes(checksums_path(shard), seal(body), replace=replace)


def read_checksums(shard: Path, sha256: str | None = None) -> Checksums:
    """Read the checksums of a shard.

    Args:
        shard: Path of the shard.
        sha256: The shard's SHA-256 according to its manifest. None skips the comparison.

    Returns:
        One hash per chunk, (chunks,).

    Raises:
        IntegrityError: The file is damaged or belongs to another shard.
        StoreError: The file is missing.
    """
    path = checksums_path(shard)
    name = f"{path.parent.name}/{path.name}"
    try:
        body = unseal(local_copy(path).read_bytes(), name)
        hashes = np.frombuffer(base64.b64decode(body["xxh3_64"], validate=True), "<u8").astype(np.uint64)
    except FileNotFoundError:
        folder = shard.parent.parent
        raise StoreError(
            f"{name} is missing, so damage to {shard.name} cannot be detected. Run 'clocs data checksums {folder}'. "
            "For a read-only folder, use 'clocs --skip-checksums ...'."
        ).with_code_hint("open_store(folder, check=False)") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IntegrityError(f"{name}: cannot be read ({error!r:.100}). Run 'clocs data verify'.") from error
    if body.get("chunk_bytes") != CHUNK_BYTES or (sha256 is not None and body.get("shard_sha256") != sha256):
        raise IntegrityError(f"{name}: belongs to another shard. Run 'clocs data verify'.")
    return hashes


def hash_shard(shard: Path) -> tuple[str, Checksums]:
    """Return the SHA-256 of a shard and its checksums, from one pass over its bytes."""
    digest, chunks = hashlib.sha256(), ChunkHasher()
    for piece in read_chunks(shard):
        digest.update(piece)
        chunks.update(memoryview(piece))
    return digest.hexdigest(), chunks.checksums()
