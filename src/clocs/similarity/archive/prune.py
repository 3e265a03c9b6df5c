"""Deletion of older versions of an archive, and of files that no remaining version names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from clocs.core.storage.locations import to_location
from clocs.similarity.archive.commit import read_refused
from clocs.similarity.archive.embedding_task import read_task_record
from clocs.similarity.archive.manifest import read_archive_manifest
from clocs.store.old_versions import GRACE, Ages, PruneResult, delete_old_versions, list_files
from clocs.store.shard import SHARDS
from clocs.store.task_records import TASK_RECORDS


def prune_embeddings(
    folder: str | os.PathLike[str], keep: int = 1, grace: timedelta = GRACE, *, dry_run: bool = True
) -> PruneResult:
    """Delete older versions of an archive, and all files that no remaining version refers to.

    These are shards, lists of refused recordings, task records, and remains of killed writes. Other files are not
    touched. Versions and files that running programs may use are kept for a grace period.

    Args:
        folder: Folder of the archive.
        keep: Number of newest versions to keep, at least 1.
        grace: Period in which no file of a reader or writer is deleted.
        dry_run: List the files without deleting them.

    Returns:
        Deleted versions and files.

    Raises:
        ConfigError: ``keep`` is less than 1, ``grace`` is negative, or a folder of the archive is a link.
        IntegrityError: A remaining version is damaged. Then nothing is deleted.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> archive = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> result = clocs.withdraw_embeddings("archive", [store.recording(0).patient_id])
        >>> from datetime import timedelta
        >>> clocs.prune_embeddings("archive", grace=timedelta(0), dry_run=False).versions
        (1,)
    """
    root = to_location(folder)
    read_archive_manifest(root)  # raises StoreError before the lock creates a folder
    return delete_old_versions(root, (SHARDS, TASK_RECORDS), _unnamed_files, keep, grace, dry_run=dry_run)


def _unnamed_files(folder: Path, numbers: list[int], ages: Ages) -> Iterator[Path]:
    """Iterate over the old files that no kept version names, in the order in which they are deleted."""
    kept = [read_archive_manifest(folder, number) for number in numbers]
    used = {info.file for manifest in kept for info in manifest.shards}
    refused = {row.record_id for manifest in kept for row in read_refused(folder, manifest)}
    for path in list_files(folder, TASK_RECORDS, ".json"):
        record = read_task_record(folder, path)
        files = {record.shard.file} if record is not None and record.shard is not None else set()
        if record is not None and files <= used and all(row.record_id in refused for row in record.refused):
            continue
        if ages.is_old(path, *(folder / name for name in files)):
            yield path
        else:
            used |= files  # a killed embedding is continued with it
    for path in list_files(folder, SHARDS, ".arrow"):
        if path.relative_to(folder).as_posix() not in used and ages.is_old(path):
            yield path
    lists = {manifest.refused_list.file for manifest in kept}
    for path in sorted(folder.glob("refused-*.jsonl")):
        if path.name not in lists and ages.is_old(path):
            yield path
