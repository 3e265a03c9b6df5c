"""Withdrawal of patients from a store: a new version without them, and hashes that keep them out of later ingests.

The order of the writes makes it safe to kill: the hashes come first, then the new shards, the task records that name
them, and last the manifest. Task records never name a withdrawn patient's shard after the new version is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clocs.core.storage.bucket_remains import warn_of_kept_versions
from clocs.core.storage.files import lock_folder, remove_file
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.store.commit import commit_rewritten
from clocs.store.duplicates import Keys
from clocs.store.manifest import Manifest, read_manifest
from clocs.store.named_patients import WithdrawalCounts, name_patients
from clocs.store.patient_search import FoundPatients, PatientSearch
from clocs.store.rewrite import Replacements, replace_shards, write_rows
from clocs.store.segments import Segment
from clocs.store.shard import ShardInfo
from clocs.store.task_records import TaskRecord, read_task_records, task_record_path, write_task_record
from clocs.store.withdrawn import WithdrawnPatients, read_withdrawn, write_withdrawn


@dataclass(frozen=True)
class Withdrawal(WithdrawalCounts):
    """Outcome of a withdrawal, and what still holds the patients."""

    version: int
    """Newest version of the store, which does not hold them."""
    recordings: int
    """Number of stored recordings that the newest version lost."""
    quarantined: int
    """Number of quarantined recordings that it lost."""
    older_versions: tuple[int, ...]
    """Older versions of the store that hold the patients."""
    splits: tuple[str, ...]
    """Splits that list them."""
    frame_caches: tuple[str, ...]
    """Frame caches of the older versions, as paths within the store."""
    keys: Keys = field(repr=False, compare=False)
    """64-bit keys of their recordings, leads and pseudonyms, by which encoders keep what they have seen, (N,)."""


def withdraw(
    folder: str | os.PathLike[str],
    patient_ids: Iterable[str],
    *,
    key: str | os.PathLike[str] | None = None,
    allow_unknown: bool = False,
) -> Withdrawal:
    """Write a version of a store without some patients, and keep them out of later ingests.

    Only shards with their recordings are rewritten. The other recordings keep their order. The store keeps hashes of
    the ids. Older versions, splits and frame caches hold the patients until ``prune`` deletes them.

    Args:
        folder: Folder of the store.
        patient_ids: Ids of patients.
        key: Key file of the store's pseudonyms, needed if the ids are original patient numbers.
        allow_unknown: Keep ids that the store does not have out of later ingests, instead of raising an error.

    Returns:
        The new version, counts, and the versions, splits and caches that still hold the patients.

    Raises:
        ConfigError: An id is unknown, or the key is missing or wrong. Then nothing is changed.
        StoreError: The folder is not a store, or another process writes to it.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> patient = store.recording(0).patient_id
        >>> result = clocs.withdraw(store, [patient])
        >>> result.version, result.recordings, result.older_versions
        (2, 2, (1,))
        >>> len(clocs.open_store("store"))
        2
    """
    root = to_location(folder)
    read_manifest(root)  # raises StoreError before the lock creates a folder
    with lock_folder(root):
        manifest = read_manifest(root)
        named = name_patients(patient_ids, key, {manifest.options.get("key") or None}, "store")
        search, before = PatientSearch(root, named.ids), read_withdrawn(root, manifest.first_sha256)
        found = search.find()
        counts = named.count(root, before, found.ids, found.newest_ids, allow_unknown=allow_unknown)
        keys = search.keys(found.versions)
        version = _remove_patients(root, manifest, found, before, before.add(named.ids))
        if isinstance(root, ObjectPath):
            warn_of_kept_versions(root)
        return Withdrawal(
            **vars(counts),
            version=version,
            recordings=found.num_recordings,
            quarantined=found.num_quarantined,
            older_versions=tuple(found.versions),
            splits=tuple(search.splits()),
            frame_caches=tuple(search.frame_caches(found.store_hashes)),
            keys=keys,
        )


def _remove_patients(
    folder: Path, manifest: Manifest, found: FoundPatients, before: WithdrawnPatients, patients: WithdrawnPatients
) -> int:
    """Write a version without the patients that were found, and return its number."""
    if patients != before:
        write_withdrawn(folder, patients)
    replaced = _remaining_shards(folder, manifest, found)
    segments = replace_shards(folder, manifest.segments, replaced)
    _update_task_records(folder, found, replaced, patients)
    return commit_rewritten(folder, segments, found.num_recordings).version


def _remaining_shards(folder: Path, manifest: Manifest, found: FoundPatients) -> Replacements:
    """Write the remaining recordings of the shards that hold the patients."""
    replaced: dict[str, ShardInfo | None] = {}
    for segment in manifest.segments:
        opened = Segment(folder, segment)
        if found.rows.keys().isdisjoint(opened.files()):
            continue
        for info in opened.shard_infos:
            if info.file in found.rows:
                rows = np.setdiff1d(np.arange(info.records), found.rows[info.file])
                replaced[info.file] = write_rows(folder, [(info, rows)]) if len(rows) else None
    return replaced


def _update_task_records(
    folder: Path, found: FoundPatients, replaced: Replacements, patients: WithdrawnPatients
) -> None:
    """Let task records name the new shards. Those of unused shards with the patients are removed."""
    removed = {record.task for record in found.unused_records}
    for record in read_task_records(folder):
        if record.task in removed:
            remove_file(task_record_path(folder, record.task))
            continue
        new = _without_patients(record, replaced, patients)
        if new != record:
            write_task_record(folder, new, replace=True)


def _without_patients(record: TaskRecord, replaced: Replacements, patients: WithdrawnPatients) -> TaskRecord:
    remaining = [replaced.get(shard.file, shard) for shard in record.shards]
    shards = tuple(shard for shard in remaining if shard is not None)
    refused = tuple(row for row in record.refused if row.patient_id not in patients)
    removed = sum(shard.records for shard in record.shards) - sum(shard.records for shard in shards)
    withdrawn = record.withdrawn + removed + len(record.refused) - len(refused)
    return record.model_copy(update={"shards": shards, "refused": refused, "withdrawn": withdrawn})
