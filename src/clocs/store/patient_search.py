"""Search for patients in everything that a store keeps: versions, task records, splits and frame caches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.storage.object_cache import local_folder
from clocs.store.duplicates import Keys, lead_keys, patient_keys, signal_keys
from clocs.store.frame_cache import FRAMES, cached_store_hash
from clocs.store.manifest import read_manifest, read_quarantine, versions
from clocs.store.reader import StoreReader
from clocs.store.segments import Segment, SegmentInfo, hash_ids
from clocs.store.shard import SHARDS, Shard, ShardInfo
from clocs.store.splits import SPLITS
from clocs.store.task_records import TaskRecord, read_task_records

Ints = npt.NDArray[np.int64]


@dataclass
class FoundPatients:
    """Recordings and files of a store that hold some patients."""

    ids: set[str] = field(default_factory=set)
    """Ids that were found."""
    newest_ids: set[str] = field(default_factory=set)
    """Those among them that were found in the newest version."""
    rows: dict[str, Ints] = field(default_factory=dict)
    """Their rows in each shard of the newest version, by file."""
    num_quarantined: int = 0
    """Number of their quarantined recordings in the newest version."""
    versions: list[int] = field(default_factory=list)
    """Versions with their recordings, stored or quarantined, oldest first."""
    store_hashes: set[str] = field(default_factory=set)
    """Hashes of these versions."""
    unused_records: list[TaskRecord] = field(default_factory=list)
    """Task records of other shards than those of the newest version that have their recordings."""

    @property
    def num_recordings(self) -> int:
        """Number of their stored recordings in the newest version."""
        return sum(map(len, self.rows.values()))


class PatientSearch:
    """Search for patients in a store.

    Args:
        folder: Folder of the store.
        ids: Patient ids as the store has them.
    """

    def __init__(self, folder: Path, ids: Iterable[str]) -> None:
        self.folder, self._ids = folder, pa.array(sorted(ids), pa.string())
        self._codes = hash_ids(self._ids.to_pylist())
        self._rows = functools.cache(self._rows_of_segment)

    def find(self) -> FoundPatients:
        """Search all versions and task records."""
        found = FoundPatients()
        newest = versions(self.folder)[-1]
        for number in versions(self.folder):
            self._search_version(number, found, is_newest=number == newest)
        used = {name for info in read_manifest(self.folder).segments for name in Segment(self.folder, info).files()}
        for record in read_task_records(self.folder):
            held = self._held_by(record, used)
            if held and not used.issuperset(shard.file for shard in record.shards):
                found.unused_records.append(record)
            found.ids |= held
        return found

    def _search_version(self, number: int, found: FoundPatients, *, is_newest: bool) -> None:
        manifest = read_manifest(self.folder, number)
        quarantine = manifest.quarantine
        listed = [row["patient_id"] for row in read_quarantine(self.folder / quarantine.file, quarantine.sha256)]
        held = [name for name in listed if name in self._names]
        ids = set(held).union(*(self._rows(info)[1] for info in manifest.segments))
        found.ids |= ids
        if ids:
            found.versions.append(number)
            found.store_hashes.add(manifest.content_sha256)
        if is_newest:
            found.newest_ids, found.num_quarantined = ids, len(held)
            for info in manifest.segments:
                found.rows |= _rows_by_shard(Segment(self.folder, info), self._rows(info)[0])

    def _rows_of_segment(self, info: SegmentInfo) -> tuple[Ints, set[str]]:
        """Return the rows of the patients in a segment, and the ids that were found."""
        segment = Segment(self.folder, info)
        rows = np.flatnonzero(np.isin(segment.patient_codes, self._codes))
        if not len(rows):
            return rows, set()
        names = segment.columns(["patient_id"]).column(0).take(pa.array(rows))
        is_equal = pc.is_in(names, value_set=self._ids)  # a hash of another id may be the same
        return rows[is_equal.to_numpy(False)], set(names.filter(is_equal).to_pylist())

    @functools.cached_property
    def _names(self) -> set[str]:
        return set(self._ids.to_pylist())

    def _held_by(self, record: TaskRecord, used: set[str]) -> set[str]:
        """Return the patients in a task record, and in its shards that the newest version does not use."""
        names = {row.patient_id for row in record.refused}
        for info in record.shards:
            if info.file not in used:
                names |= set(self._column(info).to_pylist())
        return names & self._names

    def _column(self, info: ShardInfo) -> pa.Array:
        return Shard(self.folder / SHARDS / info.file, info).column("patient_id")

    def splits(self) -> list[str]:
        """Return the names of the splits that list these patients."""
        return [
            path.stem for path in sorted((self.folder / SPLITS).glob("*.arrow")) if self._names & _split_patients(path)
        ]

    def frame_caches(self, store_hashes: set[str]) -> list[str]:
        """Return the frame caches of these versions, and those of unknown versions."""
        caches = sorted((local_folder(self.folder) / FRAMES).glob("*.npy"))
        return [f"{FRAMES}/{path.name}" for path in caches if cached_store_hash(path) in {*store_hashes, ""}]

    def keys(self, numbers: Iterable[int]) -> Keys:
        """Return 64-bit keys of these patients' recordings, single leads and ids, as encoders keep them.

        Args:
            numbers: Versions to search. Newer ones are read first, until every patient is found.
        """
        missing, parts = set(self._names), [np.empty(0, np.uint64)]
        for number in sorted(numbers, reverse=True):
            if not missing:
                break
            store = StoreReader(self.folder, number)
            used, names = self._mask(store)
            if names & missing:
                parts += [
                    signal_keys(store)[used],
                    lead_keys(store, used, all_leads=True)[1],
                    patient_keys(store)[used],
                ]
                missing -= names
        keys = np.unique(np.concatenate(parts))
        return keys[keys > 0]

    def _mask(self, store: StoreReader) -> tuple[npt.NDArray[np.bool_], set[str]]:
        mask, names = np.zeros(len(store), bool), set[str]()
        starts = itertools.accumulate((info.records for info in store.manifest.segments), initial=0)
        for info, start in zip(store.manifest.segments, starts, strict=False):
            rows, held = self._rows(info)
            mask[start + rows] = True
            names |= held
        return mask, names


def _rows_by_shard(segment: Segment, rows: Ints) -> dict[str, Ints]:
    """Divide the rows of a segment by shard, counted from the shard's first row."""
    if not len(rows):
        return {}
    starts = np.cumsum([0, *segment.shard_table.column("records").to_pylist()])
    shard = np.searchsorted(starts, rows, "right") - 1
    files = segment.files()
    return {files[number]: rows[shard == number] - starts[number] for number in np.unique(shard).tolist()}


def _split_patients(path: Path) -> set[str]:
    try:
        table = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        return set(table.column("patient_id").to_pylist())
    except (OSError, pa.ArrowException):
        return set()
