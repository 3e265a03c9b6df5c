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

import bisect
import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.files import content_hash, find_damage
from clocs.store.arrow_files import CheckedArrow, column_view, write_arrow
from clocs.store.checksums import checksums_path, count_chunks, write_checksums
from clocs.store.extra_columns import typed_columns
from clocs.store.shard import SHARDS, Shard, ShardInfo, schema

METADATA: Final = "metadata"
"""Folder of the segments within a store."""
MAX_RECORDS: Final = 1 << 20
"""Maximum number of recordings of a segment, which bounds the memory for writing it."""
MAX_SEGMENTS: Final = 16
"""Number of segments above which two neighbours are merged by the next commit."""
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


def plan_segments(folder: Path, previous: Sequence[SegmentInfo], shards: Sequence[ShardInfo]) -> list[SegmentInfo]:
    """Return the segments of a new version, and write those that are missing.

    Recordings of the previous version keep their order, and new ones follow.

    Args:
        folder: Folder of the store.
        previous: Segments of the previous version.
        shards: Entries of all shards of the new version.

    Returns:
        Segments of the previous version whose shards all remain, followed by new segments.
    """
    wanted, covered, kept = {info.file for info in shards}, set[str](), []
    for info in previous:
        files = Segment(folder, info).files()
        if wanted.issuperset(files):
            kept.append(info)
            covered.update(files)
    new = [info for info in shards if info.file not in covered]
    segments = [*kept, *(write_segment(folder, part) for part in _parts(new))]
    return _merge_smallest(folder, segments) if len(segments) > MAX_SEGMENTS else segments


def _parts(shards: Sequence[ShardInfo]) -> Iterator[list[ShardInfo]]:
    """Divide shards into lists of at most ``MAX_RECORDS`` recordings, or of one shard."""
    part: list[ShardInfo] = []
    for info in shards:
        if part and sum(each.records for each in part) + info.records > MAX_RECORDS:
            yield part
            part = []
        part.append(info)
    if part:
        yield part


def _merge_smallest(folder: Path, segments: list[SegmentInfo]) -> list[SegmentInfo]:
    """Merge the two neighbours with the fewest recordings, unless they are too large."""
    sizes = [one.records + other.records for one, other in itertools.pairwise(segments)]
    first = int(np.argmin(sizes))
    if sizes[first] > MAX_RECORDS:
        return segments
    shards = [info for segment in segments[first : first + 2] for info in Segment(folder, segment).shard_infos]
    return [*segments[:first], write_segment(folder, shards), *segments[first + 2 :]]


def repeated_record_ids(folder: Path, segments: Sequence[SegmentInfo], known: Collection[SegmentInfo]) -> list[str]:
    """Return record ids that occur more than once.

    Args:
        folder: Folder of the store.
        segments: Segments of a version.
        known: Those among them whose ids are known to differ.
    """
    opened = [Segment(folder, info) for info in segments]
    repeated: set[str] = set()
    for number, segment in enumerate(opened):
        if segment.info in known:
            continue
        own = segment.id_hashes
        repeated.update(_repeated(segment, own[1:][np.diff(own) == 0]))
        for other in (*opened[:number], *(each for each in opened[number + 1 :] if each.info in known)):
            repeated.update(_repeated(segment, np.intersect1d(own, other.id_hashes), other))
    return sorted(repeated)


def _repeated(segment: Segment, hashes: Codes, other: Segment | None = None) -> list[str]:
    """Return the ids behind equal hashes that are really equal."""
    own = Counter(name for code in np.unique(hashes) for name in segment.ids_of(code))
    if other is None:
        return [name for name, count in own.items() if count > 1]
    return [name for name in own if other.find(name) is not None]


def write_segment(folder: Path, shards: Sequence[ShardInfo]) -> SegmentInfo:
    """Write the files of a segment, unless they exist.

    Args:
        folder: Folder of the store.
        shards: Entries of its shards, whose files exist.

    Returns:
        Entry of the segment.
    """
    name = content_hash([[info.file, info.sha256] for info in shards])[:16]
    path = segment_path(folder, name, "shards")
    written = write_arrow(path, shards_batch(shards))
    info = SegmentInfo(
        name=name, sha256=written.sha256, shards=len(shards), records=sum(info.records for info in shards)
    )
    segment = Segment(folder, info)
    segment.write_missing_files()
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
        return self._records.columns(names)

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

    def write_missing_files(self) -> None:
        """Write the files that follow from the shards, unless they exist."""
        for kind in ("records", "ids"):
            if not self._exists(kind):
                self._write(kind, self.computed(kind))

    def _exists(self, kind: str) -> bool:
        path = segment_path(self.folder, self.info.name, kind)
        return path.exists() and checksums_path(path).exists()

    def _write(self, kind: str, batch: pa.RecordBatch) -> None:
        path = segment_path(self.folder, self.info.name, kind)
        written = write_arrow(path, batch)
        write_checksums(path, written.sha256, written.checksums)

    def _open(self, kind: str) -> CheckedArrow | _Batch:
        """Open a file. If it is missing, it is written; in a folder without write access, it is kept in memory."""
        if not self._exists(kind):
            batch = self.computed(kind)
            try:
                self._write(kind, batch)
            except StoreError:
                return _Batch(batch)
        path = segment_path(self.folder, self.info.name, kind)
        checked = None if self._check else np.ones(count_chunks(path.stat().st_size), bool)
        return CheckedArrow(path, checked=checked)

    def computed(self, kind: str) -> pa.RecordBatch:
        """Return the content of a file, ``records`` or ``ids``, computed from the shards."""
        if kind == "ids":
            hashes = hash_ids(self._from_shards(["record_id"]).column(0).to_pylist())
            order = np.argsort(hashes, kind="stable")
            return pa.record_batch({"hash": hashes[order], "row": order.astype(np.uint32)})
        batch = self._from_shards(COLUMNS)
        codes = hash_ids(batch.column("patient_id").to_pylist())
        extra = typed_columns(batch.column("extra"))
        columns = [*batch.columns, pa.array(codes), *extra.values()]
        return pa.RecordBatch.from_arrays(columns, [*batch.schema.names, PATIENT_CODE, *extra])

    def _from_shards(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns that are read from the shards."""
        infos = self.shard_infos
        batches = [Shard(self.folder / SHARDS / info.file, info).columns(names) for info in infos]
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


class ShardTable(Sequence[ShardInfo]):
    """Entries of all shards of a store version, read on first use.

    Args:
        segments: Segments in order.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._starts = [0, *itertools.accumulate(segment.info.shards for segment in segments)]

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, number: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, number: slice) -> list[ShardInfo]: ...
    def __getitem__(self, number: int | slice) -> ShardInfo | list[ShardInfo]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        index = number if number >= 0 else number + len(self)
        if not 0 <= index < len(self):
            raise IndexError(number)
        segment = bisect.bisect_right(self._starts, index) - 1
        return self._segments[segment].shard_infos[index - self._starts[segment]]

    def __iter__(self) -> Iterator[ShardInfo]:
        return (info for segment in self._segments for info in segment.shard_infos)

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of integers of all shards, (shards,)."""
        parts = [column_view(segment.shard_table.column(name), np.int64) for segment in self._segments]
        return np.concatenate(parts or [np.empty(0, np.int64)])

    def files(self) -> list[str]:
        """Return the names of all files, in order."""
        return [name for segment in self._segments for name in segment.files()]
