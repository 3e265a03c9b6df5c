"""Compaction of a store: many small shards are merged into fewer ones of normal size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clocs.core.hashes import content_hash
from clocs.core.storage.files import lock_folder
from clocs.core.storage.locations import to_location
from clocs.signals.source_check import merge_measurements
from clocs.store.commit import commit_rewritten
from clocs.store.manifest import read_manifest
from clocs.store.reader import StoreReader
from clocs.store.rewrite import replace_shards, write_rows
from clocs.store.shard import ShardInfo
from clocs.store.task_records import TaskRecord, read_task_records, write_task_record
from clocs.store.writer import SHARD_BYTES

RECORDS_PER_SHARD = 512
"""Default maximum number of recordings of a merged shard."""


@dataclass(frozen=True)
class Compaction:
    """Outcome of a compaction."""

    version: int
    """Newest version of the store."""
    shards_before: int
    """Number of shards before."""
    shards: int
    """Number of shards of the newest version."""


@dataclass(frozen=True)
class _Unit:
    """Neighboring shards that are all shards of one task."""

    shards: tuple[ShardInfo, ...]
    record: TaskRecord | None
    """Record of the task; None if the shards must stay as they are."""

    @property
    def num_records(self) -> int:
        return sum(shard.records for shard in self.shards)

    @property
    def num_bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


def compact(folder: str | os.PathLike[str], *, records_per_shard: int = RECORDS_PER_SHARD) -> Compaction:
    """Merge small neighboring shards of a store in a new version with the same recordings in the same order.

    A store that grows by a few files every night gets many small shards. Only stores of the dataset ``folder`` are
    compacted. Shards of other datasets stay, so that an ingest finds its finished tasks again. If no shards can be
    merged, no version is written.

    Args:
        folder: Folder of the store.
        records_per_shard: Maximum number of recordings of a merged shard.

    Returns:
        The newest version, and numbers of shards.

    Raises:
        StoreError: The folder is not a store, or another process writes to it.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> clocs.compact(store)  # one shard, which cannot be merged
        Compaction(version=1, shards_before=1, shards=1)
    """
    root = to_location(folder)
    read_manifest(root)  # raises StoreError before the lock creates a folder
    with lock_folder(root):
        store = StoreReader(root)
        shards = list(store.shards)
        replaced: dict[str, ShardInfo | None] = {}
        for group in _groups(_units(root, shards), records_per_shard):
            merged = _merge(root, group)
            replaced |= dict.fromkeys((shard.file for unit in group for shard in unit.shards), None)
            replaced[group[0].shards[0].file] = merged
        if not replaced:
            return Compaction(store.manifest.version, len(shards), len(shards))
        segments = replace_shards(root, store.manifest.segments, replaced)
        manifest = commit_rewritten(root, segments)
        return Compaction(manifest.version, len(shards), sum(info.shards for info in manifest.segments))


def _units(folder: Path, shards: Sequence[ShardInfo]) -> Iterator[_Unit]:
    """Divide the shards of a version by task, in order."""
    first_files = {record.shards[0].file: record for record in read_task_records(folder) if record.shards}
    position = 0
    while position < len(shards):
        record = first_files.get(shards[position].file)
        own = tuple(shards[position : position + (len(record.shards) if record is not None else 1)])
        is_whole = record is not None and record.entries and own == record.shards
        yield _Unit(own, record) if is_whole else _Unit(own[:1], None)
        position += len(own) if is_whole else 1


def _groups(units: Iterator[_Unit], records_per_shard: int) -> Iterator[list[_Unit]]:
    """Iterate over neighboring units with several shards that fit into one."""
    group: list[_Unit] = []
    for unit in units:
        if unit.record is None or not _fits([*group, unit], records_per_shard):
            if _is_worth_merging(group):
                yield group
            group = []
        if unit.record is not None and _fits([unit], records_per_shard):
            group.append(unit)
    if _is_worth_merging(group):
        yield group


def _fits(group: Sequence[_Unit], records_per_shard: int) -> bool:
    return (
        sum(unit.num_records for unit in group) <= records_per_shard
        and sum(unit.num_bytes for unit in group) <= SHARD_BYTES
    )


def _is_worth_merging(group: Sequence[_Unit]) -> bool:
    return sum(len(unit.shards) for unit in group) > 1


def _merge(folder: Path, group: Sequence[_Unit]) -> ShardInfo:
    """Write the shards of a group as one, with a task record that covers all entries of the group.

    The records of the merged tasks stay. An ingest prefers records whose shards are in the newest version.
    """
    parts = [(shard, np.arange(shard.records)) for unit in group for shard in unit.shards]
    merged = write_rows(folder, parts)
    records = [unit.record for unit in group if unit.record is not None]
    new = TaskRecord(
        task=content_hash([record.task for record in records]),
        records_in=sum(record.records_in for record in records),
        shards=(merged,),
        refused=tuple(row for record in records for row in record.refused),
        withdrawn=sum(record.withdrawn for record in records),
        entries="".join(record.entries for record in records),
        measurements=merge_measurements(record.measurements for record in records),
    )
    write_task_record(folder, new, replace=True)
    return merged
