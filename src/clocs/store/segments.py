"""Segments: the metadata of many shards in a few files, so that no query opens every shard.

A commit writes one segment for its new shards. Later versions share it. A segment consists of three Arrow files in the
folder ``metadata`` of a store:

- ``NAME.shards.arrow`` lists its shards. The manifest states its hash.
- ``NAME.records.arrow`` has the columns of its recordings except the samples, a 64-bit code of each patient, and a
  typed column for each name in ``extra``.
- ``NAME.ids.arrow`` has the hashes of the record ids in ascending order, each with its row.

The last two follow from the shards. They are written again if they are missing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import ExistsError, IntegrityError, StoreError
from clocs.core.hashes import content_hash, find_damage
from clocs.core.storage.locations import ObjectPath
from clocs.core.storage.object_cache import local_copy
from clocs.store.arrow_files import CheckedArrow, column_view, write_arrow
from clocs.store.checksums import checksums_path, count_chunks, hash_shard, write_checksums
from clocs.store.extra_columns import typed_columns
from clocs.store.shard import SHARDS, Shard, ShardInfo, columns_with_times, drop_absent_times, schema

METADATA: Final = "metadata"
"""Folder of the segments within a store."""
COLUMNS: Final = tuple(name for name in schema("int16").names if name != "values")
"""Columns of a shard that a segment has."""
PATIENT_CODE: Final = "patient_code"
"""Column of the patients' 64-bit codes."""
Codes = npt.NDArray[np.uint64]
_SHARD_FIELDS: Final = pa.schema(
    [
        ("file", pa.string()),
        ("sha256", pa.string()),
        ("bytes", pa.int64()),
        ("records", pa.int64()),
        ("dtype", pa.string()),
        ("leads", pa.list_(pa.string())),
        ("unit", pa.string()),
        ("sampling_rate", pa.float64()),
        ("num_samples", pa.int64()),
        ("gain", pa.float64()),
        ("baseline", pa.int64()),
        ("missing", pa.int64()),
        ("episodes", pa.bool_()),
    ]
)


class SegmentInfo(BaseModel):
    """Entry of a segment in the manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Name of its files, a hash of its shards."""
    sha256: str
    """Hash of its list of shards."""
    shards: int
    """Number of shards."""
    records: int
    """Number of recordings."""


def hash_id(text: str) -> int:
    """Return the 64-bit hash of an id."""
    return int(xxhash.xxh3_64_intdigest(text.encode()))


def hash_ids(ids: Iterable[str]) -> Codes:
    """Return the 64-bit hash of each id, (N,)."""
    return np.fromiter(map(hash_id, ids), np.uint64)


def write_segment(folder: Path, shards: Sequence[ShardInfo], merged_from: Sequence[Segment] = ()) -> SegmentInfo:
    """Write the files of a segment, unless they exist.

    Args:
        folder: Folder of the store.
        shards: Entries of its shards, whose files exist.
        merged_from: Segments with the same shards in order, whose rows are read instead of the shards.

    Returns:
        Entry of the segment.
    """
    name = content_hash([[info.file, info.sha256] for info in shards])[:16]
    path = segment_path(folder, name, "shards")
    written = write_arrow(path, shards_batch(shards))
    info = SegmentInfo(
        name=name, sha256=written.sha256, shards=len(shards), records=sum(info.records for info in shards)
    )
    Segment(folder, info).write_missing_files(merged_from)
    return info


def shards_batch(shards: Sequence[ShardInfo]) -> pa.RecordBatch:
    """Return the entries of shards as rows."""
    return pa.RecordBatch.from_pylist([info.model_dump() for info in shards], schema=_SHARD_FIELDS)


def segment_path(folder: Path, name: str, kind: str) -> Path:
    """Return the path of a segment's file: ``shards``, ``records`` or ``ids``."""
    return folder / METADATA / f"{name}.{kind}.arrow"


class Segment:
    """An open segment. Its files are read on first use and compared with their checksums.

    Args:
        folder: Folder of the store.
        info: Entry of the segment in the manifest.
        check: False to skip checksums.
    """

    def __init__(self, folder: Path, info: SegmentInfo, check: bool = True) -> None:
        self.folder, self.info, self._check = folder, info, check

    @functools.cached_property
    def shard_table(self) -> pa.RecordBatch:
        """Entries of the shards, one row each."""
        path = segment_path(self.folder, self.info.name, "shards")
        try:
            path = local_copy(path, self.info.sha256)
        except OSError as error:
            raise IntegrityError(f"{METADATA}/{path.name}: cannot be opened ({error.strerror}).") from error
        if problem := find_damage(path, self.info.sha256, None):
            raise IntegrityError(f"{METADATA}/{path.name}: {problem}. Run 'clocs data verify'.")
        try:
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_file(source).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise IntegrityError(f"{METADATA}/{path.name}: cannot be opened ({error}).") from error

    @functools.cached_property
    def shard_infos(self) -> list[ShardInfo]:
        """Entries of all shards."""
        return [ShardInfo.model_validate(row) for row in self.shard_table.to_pylist()]

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns of the recordings, in the order of the shards."""
        return columns_with_times(self._records.schema, self._records.columns, names)

    @functools.cached_property
    def extra_types(self) -> dict[str, pa.DataType]:
        """Type of each extra column."""
        return {field.name: field.type for field in self._records.schema if field.name not in (*COLUMNS, PATIENT_CODE)}

    @property
    def patient_codes(self) -> Codes:
        """64-bit code of each recording's patient, (recordings,)."""
        return column_view(self.columns([PATIENT_CODE]).column(0), np.uint64)

    def files(self) -> list[str]:
        """Return the names of the shards' files."""
        return list(self.shard_table.column("file").to_pylist())

    def find(self, record_id: str) -> int | None:
        """Return the row of a recording by its id; None if the segment does not have it."""
        rows = self._rows(np.uint64(hash_id(record_id)))
        return next((row for row in rows if self._record_id(row) == record_id), None)

    def ids_of(self, code: np.uint64) -> list[str]:
        """Return the record ids with a hash, nearly always one."""
        return [self._record_id(row) for row in self._rows(code)]

    def _record_id(self, row: int) -> str:
        return str(self.columns(["record_id"]).column(0)[row])

    def _rows(self, code: np.uint64) -> list[int]:
        """Return the rows of record ids with a hash."""
        first, end = (int(np.searchsorted(self.id_hashes, code, side)) for side in ("left", "right"))
        return list(self._ids.columns(["row"]).column(0)[first:end].to_pylist())

    @functools.cached_property
    def id_hashes(self) -> Codes:
        """Hashes of the record ids in ascending order, (recordings,)."""
        return column_view(self._ids.columns(["hash"]).column(0), np.uint64)

    @functools.cached_property
    def _records(self) -> CheckedArrow | _Batch:
        return self._open("records")

    @functools.cached_property
    def _ids(self) -> CheckedArrow | _Batch:
        return self._open("ids")

    def read(self, kind: str) -> pa.RecordBatch:
        """Return the content of a file, ``records`` or ``ids``, after checking all its bytes."""
        opened = self._open(kind)
        return opened.columns(opened.schema.names)

    def write_missing_files(self, merged_from: Sequence[Segment] = ()) -> None:
        """Write the files that are derived from the shards, unless they exist.

        Args:
            merged_from: Segments with the same shards in order, whose rows are read instead of the shards.
        """
        for kind in ("records", "ids"):
            if not self._exists(kind):
                self._write(kind, self.computed(kind, merged_from))

    def _exists(self, kind: str) -> bool:
        path = segment_path(self.folder, self.info.name, kind)
        return path.exists() and checksums_path(path).exists()

    def _write(self, kind: str, batch: pa.RecordBatch) -> None:
        path = segment_path(self.folder, self.info.name, kind)
        try:
            written = write_arrow(path, batch)
            write_checksums(path, written.sha256, written.checksums)
        except ExistsError:  # another writer, with other versions of software; its file has the same rows
            write_checksums(path, *hash_shard(local_copy(path)), replace=True)

    def _open(self, kind: str) -> CheckedArrow | _Batch:
        """Open a file. If it is missing, it is written; in a folder without write access, it is kept in memory."""
        if not self._exists(kind):
            batch = self.computed(kind)
            try:
                self._write(kind, batch)
            except StoreError:
                return _Batch(batch)
        path = segment_path(self.folder, self.info.name, kind)
        checked = None if self._check else np.ones(count_chunks(local_copy(path).stat().st_size), bool)
        return CheckedArrow(path, checked=checked)

    def computed(self, kind: str, merged_from: Sequence[Segment] = ()) -> pa.RecordBatch:
        """Return the content of a file, ``records`` or ``ids``, computed from the shards or from merged segments."""

        def rows(names: Sequence[str]) -> pa.RecordBatch:
            if merged_from:
                return _joined(segment.columns(names) for segment in merged_from)
            return self._from_shards(names)

        if kind == "ids":
            hashes = hash_ids(rows(["record_id"]).column(0).to_pylist())
            order = np.argsort(hashes, kind="stable")
            return pa.record_batch({"hash": hashes[order], "row": order.astype(np.uint32)})
        batch = drop_absent_times(rows(COLUMNS))
        codes = hash_ids(batch.column("patient_id").to_pylist())
        extra = typed_columns(batch.column("extra"))
        columns = [*batch.columns, pa.array(codes), *extra.values()]
        return pa.RecordBatch.from_arrays(columns, [*batch.schema.names, PATIENT_CODE, *extra])

    def _from_shards(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns that are read from the shards."""
        shards = (Shard(self.folder / SHARDS / info.file, info) for info in self.shard_infos)
        columns = (shard.columns(names) for shard in shards)
        if isinstance(self.folder, ObjectPath):  # a copy in memory, so that few files are mapped at a time
            columns = (pa.ipc.read_record_batch(each.serialize(), each.schema) for each in columns)
        return _joined(columns)


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches as one."""
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


class _Batch:
    """Columns in memory, with the interface of a file."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    @property
    def schema(self) -> pa.Schema:
        return self._batch.schema

    def columns(self, names: Sequence[str]) -> pa.RecordBatch:
        return self._batch.select(list(names))
