"""Archives: one embedding per recording of a store, in Arrow shards listed by a manifest.

Opening an archive reads only the manifest. Any Arrow reader opens a shard. Embeddings are personal data: they can
re-identify a patient's other recordings.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.storage.locations import join_location, to_location
from clocs.core.storage.object_cache import local_copy
from clocs.similarity.archive.manifest import ArchiveManifest, ArchiveShardInfo, read_archive_manifest
from clocs.similarity.checked_files import check_file, file_info
from clocs.similarity.segments import Ints, Vectors
from clocs.store.arrow_files import write_arrow
from clocs.store.manifest import versions
from clocs.store.shard import SHARDS
from clocs.store.store import Store

OPEN_SHARDS: Final = 1024
"""Maximum number of open memory maps."""
STORE_COLUMNS: Final = ("record_id", "patient_id", "site", "age", "sex", "labels", "extra")
"""Columns that are copied from the store."""


def lead_column(lead: str) -> str:
    """Return the column name of a lead's vectors."""
    return f"lead_{lead}"


@functools.cache
def schema(embedding_dim: int, leads: tuple[str, ...]) -> pa.Schema:
    """Return the columns of a shard, which has one row per recording."""
    vector = pa.list_(pa.float32(), embedding_dim)
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("patient_id", pa.string()),
            ("site", pa.string()),
            ("age", pa.float32()),
            ("sex", pa.string()),
            ("labels", pa.list_(pa.string())),
            ("extra", pa.map_(pa.string(), pa.string())),
            ("frames", pa.int32()),
            ("leads", pa.int16()),
            ("vector", vector),
            *((lead_column(lead), vector) for lead in leads),
        ]
    )


def open_batch(folder: Path, info: ArchiveShardInfo) -> pa.RecordBatch:
    """Open the columns of a shard, which view its memory map.

    Raises:
        IntegrityError: The file cannot be opened.
    """
    try:
        with pa.memory_map(str(local_copy(folder / info.file, info.sha256))) as source:
            return pa.ipc.open_file(source).get_batch(0)
    except (OSError, pa.ArrowException) as error:
        raise IntegrityError(f"{info.file}: cannot be opened ({error}).") from error


class ArchiveShard:
    """An open shard that views its memory map."""

    def __init__(self, folder: Path, info: ArchiveShardInfo, manifest: ArchiveManifest) -> None:
        self.batch = open_batch(folder, info)
        expected = schema(manifest.encoder.embedding_dim, manifest.leads)
        if self.batch.num_rows != info.rows or not self.batch.schema.equals(expected):
            raise IntegrityError(f"{info.file}: the shard does not match its manifest.")
        self._embedding_dim = manifest.encoder.embedding_dim

    def vectors(self, column: str = "vector") -> Vectors:
        """Return the vectors of a column without copying, shape (rows, E). Rows without the column's lead are zero."""
        values = self.batch.column(column).values
        count = self.batch.num_rows * self._embedding_dim
        return np.frombuffer(values.buffers()[1], np.float32, count).reshape(-1, self._embedding_dim)


def patient_ids(recordings: pa.Table | pa.RecordBatch) -> pa.Array:
    """Return the patient of each recording. A recording without a patient id counts as its own patient."""
    record, patient = (recordings.column(name) for name in ("record_id", "patient_id"))
    found = pc.if_else(pc.equal(patient, ""), record, patient)
    return (found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).cast(pa.large_string())


class Archive:
    """Embeddings of a store, numbered from 0 in the order of the store, without refused recordings.

    Args:
        folder: Folder of the archive.
        version: Number of a version. Default: the newest.
    """

    def __init__(self, folder: str | os.PathLike[str], version: int | None = None) -> None:
        self.folder = to_location(folder)
        self.manifest = read_archive_manifest(self.folder, version)
        self.first = np.cumsum([0, *(info.rows for info in self.manifest.shards)], dtype=np.int64)
        self.shard = functools.lru_cache(maxsize=OPEN_SHARDS)(self._open_shard)
        self._checked_shards: set[int] = set()

    def __len__(self) -> int:
        return int(self.first[-1])

    def __repr__(self) -> str:
        store = self.manifest.store.dataset
        return f"<Archive {self.folder} version {self.manifest.version}: {len(self):,} recordings of {store}>"

    @property
    def embedding_dim(self) -> int:
        """Length E of an embedding."""
        return self.manifest.encoder.embedding_dim

    @property
    def store_folder(self) -> Path:
        """Folder of the store, provided that neither folder was moved."""
        return join_location(self.folder, self.manifest.places.store)

    def open_store(self) -> Store:
        """Open the store that was embedded, at its newest version if that version was pruned.

        Raises:
            StoreError: The store was moved or replaced.
        """
        about = self.manifest.store
        is_pruned = about.version not in versions(self.store_folder)
        store = Store(self.store_folder, None if is_pruned else about.version)
        is_same = store.manifest.first_sha256 == about.first_sha256 if is_pruned else store.sha256 == about.sha256
        if not is_same:
            raise StoreError(f"{store.folder} is not the store that was embedded in {self.folder}.")
        return store

    def _open_shard(self, number: int) -> ArchiveShard:
        """Open a shard, and check its hash when it is opened for the first time."""
        info = self.manifest.shards[number]
        if number not in self._checked_shards:
            check_file(self.folder, info)
            self._checked_shards.add(number)
        return ArchiveShard(self.folder, info, self.manifest)

    def table(self, columns: Sequence[str] = STORE_COLUMNS, first: int = 0, last: int | None = None) -> pa.Table:
        """Return columns of the recordings from ``first`` up to, but not including, ``last``.

        Args:
            columns: Names of columns.
            first: First recording.
            last: End of the range. Default: all recordings.

        Returns:
            A table that views the shards.
        """
        names, end = list(columns), len(self) if last is None else last
        low = int(np.searchsorted(self.first, first, "right")) - 1
        high = int(np.searchsorted(self.first, end, "left"))
        batches = [self.shard(number).batch.select(names) for number in range(low, high)]
        expected = schema(self.embedding_dim, self.manifest.leads)
        table = pa.Table.from_batches(batches, pa.schema([expected.field(name) for name in names]))
        return table.slice(first - int(self.first[low]), end - first)

    def find(self, record_id: str) -> int | None:
        """Return the number of a recording by its id, or None. The first call opens every shard."""
        row = int(pc.index(self._record_ids, record_id).as_py())
        return row if row >= 0 else None

    @functools.cached_property
    def _record_ids(self) -> pa.ChunkedArray:
        """Ids of all recordings. Their bytes are compared with checksums when the vectors of a shard are read."""
        batches = (open_batch(self.folder, info) for info in self.manifest.shards)
        return pa.chunked_array([batch.column("record_id") for batch in batches], pa.string())

    def vectors(self, rows: Ints | None = None, column: str = "vector") -> Vectors:
        """Return the vectors of recordings, loaded into memory.

        Args:
            rows: Numbers of recordings, shape (n,). Default: all.
            column: ``"vector"``, or a lead's column (see :func:`lead_column`).

        Returns:
            Unit vectors of shape (n, E); zeros if a recording lacks the lead.
        """
        numbers = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        vectors = np.empty((len(numbers), self.embedding_dim), np.float32)
        for shard, shard_rows, positions in self._by_shard(numbers):
            vectors[positions] = self.shard(shard).vectors(column)[shard_rows]
        return vectors

    def lead_vectors(self, rows: Ints) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return the vectors of single leads.

        Args:
            rows: Numbers of recordings, shape (n,).

        Returns:
            Unit vectors of shape (n, L, E) in the order of ``manifest.leads``, and a mask (n, L) of the leads present.
        """
        vectors = np.empty((len(rows), len(self.manifest.leads), self.embedding_dim), np.float32)
        for number, lead in enumerate(self.manifest.leads):
            vectors[:, number] = self.vectors(rows, lead_column(lead))
        return vectors, np.asarray(vectors.any(axis=2))

    def _by_shard(self, rows: Ints) -> list[tuple[int, Ints, Ints]]:
        """Group rows by shard: shard number, rows within the shard, and their positions in ``rows``."""
        numbers = np.searchsorted(self.first, rows, "right") - 1
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        groups = np.split(order, cuts) if len(order) else []
        return [(int(numbers[at[0]]), rows[at] - self.first[numbers[at[0]]], at) for at in groups]


def open_archive(folder: str | os.PathLike[str], version: int | None = None) -> Archive:
    """Open an archive of embeddings.

    Only the manifest is read. Shards are opened, and their checksums compared, when they are first used.

    Args:
        folder: Folder of an archive, as written by :func:`clocs.embed_store`.
        version: Number of a version. Default: the newest.

    Returns:
        The archive. ``len(archive)`` is the number of embedded recordings.

    Raises:
        StoreError: The folder is not an archive.
        IntegrityError: The manifest is damaged.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> _ = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> archive = clocs.open_archive("archive")
        >>> archive.vectors().shape
        (4, 128)
        >>> archive.table(["record_id"]).num_rows
        4
    """
    return Archive(folder, version)


def write_archive_shard(folder: Path, name: str, batch: pa.RecordBatch) -> ArchiveShardInfo:
    """Write a shard of an archive, and return its entry. The file has the beginning of the name, and of its hash."""
    arrow = write_arrow(folder / SHARDS / f"{name[:16]}.arrow", batch, hash_in_name=True)
    written = file_info(folder, f"{SHARDS}/{arrow.name}", arrow.sha256)
    return ArchiveShardInfo(**dict(written), rows=batch.num_rows)
