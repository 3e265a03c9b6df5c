"""Withdrawal of patients from an archive: a new version without them, and hashes that keep them out of later ones.

The order of the writes makes it safe to kill: the hashes come first, then the new shards, the task records that name
them, and last the list of refused recordings and the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.hashes import content_hash
from clocs.core.storage.bucket_remains import warn_of_kept_versions
from clocs.core.storage.files import lock_folder, remove_file
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.similarity.archive.archive import Archive, open_batch, patient_ids, write_archive_shard
from clocs.similarity.archive.commit import commit_archive, read_refused
from clocs.similarity.archive.embedding_task import TaskRecord, read_task_record, task_record_path, write_task_record
from clocs.similarity.archive.manifest import ArchiveManifest, ArchiveShardInfo, read_archive_manifest
from clocs.similarity.checked_files import check_file
from clocs.similarity.segments import Ints
from clocs.store.manifest import versions
from clocs.store.named_patients import WithdrawalCounts, name_patients
from clocs.store.task_records import TASK_RECORDS
from clocs.store.withdrawn import read_withdrawn, write_withdrawn


@dataclass(frozen=True)
class ArchiveWithdrawal(WithdrawalCounts):
    """Outcome of a withdrawal from an archive."""

    version: int
    """Newest version of the archive, which does not hold the patients."""
    recordings: int
    """Number of embedded recordings that the newest version lost."""
    refused: int
    """Number of refused recordings that it lost."""
    older_versions: tuple[int, ...]
    """Older versions of the archive that hold the patients."""


def withdraw_embeddings(
    folder: str | os.PathLike[str],
    patients: Iterable[str],
    *,
    key: str | os.PathLike[str] | None = None,
    allow_unknown: bool = False,
) -> ArchiveWithdrawal:
    """Write a version of an archive without some patients, and keep them out of later versions.

    Only shards with their recordings are rewritten. The archive keeps hashes of the ids. Older versions hold the
    patients until ``prune_embeddings`` deletes them.

    Args:
        folder: Folder of the archive.
        patients: Ids of patients.
        key: Key file of the store's pseudonyms, needed if the ids are original patient numbers.
        allow_unknown: Keep ids that the archive does not have out of later versions, instead of raising an error.

    Returns:
        The new version, counts, and the older versions that still hold data of the patients.

    Raises:
        ConfigError: An id is unknown, or the key is missing or wrong. Then nothing is changed.
        StoreError: The folder is not an archive, or another process writes to it.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> archive = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> result = clocs.withdraw_embeddings("archive", [store.recording(0).patient_id])
        >>> result.version, result.recordings, len(clocs.open_archive("archive"))
        (2, 2, 2)
        >>> len(clocs.embed_store("cmsc-chapman", store, "archive"))  # although the store has the patient
        2
    """
    root = to_location(folder)
    read_archive_manifest(root)  # raises StoreError before the lock creates a folder
    with lock_folder(root):
        manifest = read_archive_manifest(root)
        named = name_patients(patients, key, {manifest.store.key}, "archive")
        before, found = read_withdrawn(root, manifest.first_sha256), _search(root, named.ids)
        counts = named.count(root, before, found.ids, found.newest_ids, allow_unknown=allow_unknown)
        after = before.add(named.ids)
        if after != before:
            write_withdrawn(root, after)
        version = _remove_patients(root, manifest, found, named.ids)
        if isinstance(root, ObjectPath):
            warn_of_kept_versions(root)
        return ArchiveWithdrawal(
            **vars(counts),
            version=version,
            recordings=sum(len(found.rows[info.file]) for info in manifest.shards),
            refused=found.num_refused,
            older_versions=tuple(found.versions),
        )


def count_patients(
    folder: str | os.PathLike[str], patients: Iterable[str], key: str | os.PathLike[str] | None = None
) -> int:
    """Return the number of patients that any version of an archive holds.

    Args:
        folder: Folder of the archive.
        patients: Ids of patients.
        key: Key file of the store's pseudonyms, needed if the ids are original patient numbers.

    Returns:
        Number of ids that were found.
    """
    root = to_location(folder)
    named = name_patients(patients, key, {read_archive_manifest(root).store.key}, "archive")
    return len(_search(root, named.ids).ids)


@dataclass
class _Found:
    """Recordings and files of an archive that hold some patients."""

    ids: set[str] = field(default_factory=set)
    """Ids that were found."""
    newest_ids: set[str] = field(default_factory=set)
    """Those among them that were found in the newest version."""
    rows: dict[str, Ints] = field(default_factory=dict)
    """Their rows in each shard of any version or task record, by file."""
    num_refused: int = 0
    """Number of their refused recordings in the newest version."""
    versions: list[int] = field(default_factory=list)
    """Versions with their recordings, oldest first."""


def _search(folder: Path, ids: set[str]) -> _Found:
    """Search all versions and task records."""
    found, held = _Found(), dict[str, set[str]]()
    named = pa.array(sorted(ids), pa.large_string())

    def search(info: ArchiveShardInfo) -> set[str]:
        if info.file not in held:
            check_file(folder, info)
            names = patient_ids(open_batch(folder, info))
            is_named = pc.is_in(names, value_set=named)
            found.rows[info.file] = np.flatnonzero(is_named.to_numpy(zero_copy_only=False))
            held[info.file] = set(names.filter(is_named).to_pylist())
        return held[info.file]

    for number in versions(folder):
        manifest = read_archive_manifest(folder, number)
        refused = [row.patient_id for row in read_refused(folder, manifest) if row.patient_id in ids]
        names = set(refused).union(*(search(info) for info in manifest.shards))
        found.ids |= names
        if names:
            found.versions.append(number)
        found.newest_ids, found.num_refused = names, len(refused)
    for record in _task_records(folder):
        found.ids |= {row.patient_id for row in record.refused} & ids
        if record.shard is not None:
            found.ids |= search(record.shard)
    return found


def _task_records(folder: Path) -> list[TaskRecord]:
    records = (read_task_record(folder, path) for path in sorted((folder / TASK_RECORDS).glob("*.json")))
    return [record for record in records if record is not None]


def _remove_patients(folder: Path, manifest: ArchiveManifest, found: _Found, ids: set[str]) -> int:
    """Write a version without the patients that were found, and return its number."""
    archive = Archive(folder, manifest.version)
    replaced = {
        info.file: _write_remaining(archive, number, found.rows[info.file])
        for number, info in enumerate(manifest.shards)
        if len(found.rows[info.file])
    }
    for record in _task_records(folder):
        _update_task_record(folder, record, found, replaced, ids)
    remaining = [replaced.get(info.file, info) for info in manifest.shards]
    shards = [info for info in remaining if info is not None]
    refused = [row for row in read_refused(folder, manifest) if row.patient_id not in ids]
    withdrawn = manifest.records_in - sum(info.rows for info in shards) - len(refused)
    kept = {name: getattr(manifest, name) for name in _KEPT_FIELDS}
    return commit_archive(folder, {**kept, "withdrawn": withdrawn}, shards, refused).version


_KEPT_FIELDS = ("encoder", "leads", "any_lead", "store", "gate", "software", "places", "records_in")
"""Fields of the manifest that a withdrawal does not change."""


def _write_remaining(archive: Archive, number: int, rows: Ints) -> ArchiveShardInfo | None:
    """Write a shard without some of its rows; None if no row remains.

    The name follows from the rows, so a repeated attempt writes the same file.
    """
    info, shard = archive.manifest.shards[number], archive.shard(number)
    kept = np.setdiff1d(np.arange(info.rows), rows)
    if not len(kept):
        return None
    columns = []
    for name, column in zip(shard.batch.schema.names, shard.batch.columns, strict=True):
        if pa.types.is_fixed_size_list(column.type):  # absent leads stay zero, as in the shard itself
            absent = column.is_null().to_numpy(zero_copy_only=False)[kept]
            values = pa.array(shard.vectors(name)[kept].reshape(-1))
            mask = pa.array(absent) if absent.any() else None
            columns.append(pa.FixedSizeListArray.from_arrays(values, archive.embedding_dim, mask=mask))
        else:
            columns.append(column.take(pa.array(kept)))
    batch = pa.RecordBatch.from_arrays(columns, schema=shard.batch.schema)
    return write_archive_shard(archive.folder, content_hash([info.file, info.sha256, kept.tolist()]), batch)


def _update_task_record(
    folder: Path,
    record: TaskRecord,
    found: _Found,
    replaced: Mapping[str, ArchiveShardInfo | None],
    ids: set[str],
) -> None:
    """Let a task record name the new shard. The record of an unused shard with the patients is removed."""
    shard = record.shard
    if shard is not None and shard.file in replaced:
        shard = replaced[shard.file]
    elif shard is not None and len(found.rows[shard.file]):
        remove_file(task_record_path(folder, record.task))
        return
    refused = tuple(row for row in record.refused if row.patient_id not in ids)
    withdrawn = record.records_in - (shard.rows if shard is not None else 0) - len(refused)
    new = record.model_copy(update={"shard": shard, "refused": refused, "withdrawn": withdrawn})
    if new != record:
        write_task_record(folder, new)
