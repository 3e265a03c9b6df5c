"""Deletion of older versions of a store, and of files that no remaining version names.

Manifests are deleted first. Killed at any moment, every remaining version is complete, and the next call deletes the
rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from clocs.core.errors import IntegrityError
from clocs.core.hashes import unseal
from clocs.core.storage.locations import to_location
from clocs.store.checksums import SUFFIX, checksums_path
from clocs.store.frame_cache import FRAMES, cached_store_hash
from clocs.store.manifest import read_manifest
from clocs.store.old_versions import GRACE, Ages, PruneResult, delete_old_versions, list_files
from clocs.store.segments import METADATA, Segment
from clocs.store.shard import SHARDS
from clocs.store.splits import SPLITS
from clocs.store.task_records import TASK_RECORDS, read_task_record

_FOLDERS: Final = (SHARDS, METADATA, TASK_RECORDS, SPLITS, FRAMES)


def prune(
    folder: str | os.PathLike[str], keep: int = 1, grace: timedelta = GRACE, *, dry_run: bool = True
) -> PruneResult:
    """Delete older versions of a store, and all files that no remaining version refers to.

    These are shards, checksums, segments, quarantine lists, task records, splits and frame caches, and remains of
    killed writes. Other files are not touched. A version is kept while the next version is younger than the
    grace period, because a reader may have opened it. Files younger than this period are kept as well, because a writer
    may need them.

    Args:
        folder: Folder of the store.
        keep: Number of newest versions to keep, at least 1.
        grace: Period in which no file of a reader or writer is deleted. Choose it longer than the longest run.
        dry_run: List the files without deleting them.

    Returns:
        Deleted versions and files.

    Raises:
        ConfigError: ``keep`` is less than 1, ``grace`` is negative, or a folder of the store is a link.
        IntegrityError: A remaining version is damaged. Then nothing is deleted.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> result = clocs.withdraw(store, [store.recording(0).patient_id])
        >>> clocs.prune("store").versions  # version 1 has been replaced just now
        ()
        >>> from datetime import timedelta
        >>> clocs.prune("store", grace=timedelta(0), dry_run=False).versions
        (1,)
    """
    root = to_location(folder)
    read_manifest(root)  # raises StoreError before the lock creates a folder
    return delete_old_versions(root, _FOLDERS, _unnamed_files, keep, grace, dry_run=dry_run)


def _unnamed_files(folder: Path, numbers: list[int], ages: Ages) -> Iterator[Path]:
    """Iterate over the old files that no kept version names, in the order in which they are deleted."""
    kept = [read_manifest(folder, number) for number in numbers]
    segments = {info.name: info for manifest in kept for info in manifest.segments}
    shards = {name for info in segments.values() for name in Segment(folder, info).files()}
    hashes = {manifest.content_sha256 for manifest in kept}
    quarantined = {manifest.quarantine.file for manifest in kept}
    yield from _unused_task_records(folder, shards, ages)
    yield from _unused_splits(folder, hashes, ages)
    for path in list_files(folder, FRAMES, (".json", ".npy")):
        if cached_store_hash(path) not in hashes and ages.is_old(path):
            yield path
    for path in list_files(folder, SHARDS, (".arrow", SUFFIX)):
        shard = path if path.suffix == ".arrow" else path.with_name(path.name.removesuffix(SUFFIX) + ".arrow")
        if shard.name not in shards and ages.is_old(shard, checksums_path(shard)):
            yield path
    for path in list_files(folder, METADATA, (".arrow", SUFFIX)):
        if path.name.partition(".")[0] not in segments and ages.is_old(path):
            yield path
    for path in sorted(folder.glob("quarantine-*.jsonl")):
        if path.name not in quarantined and ages.is_old(path):
            yield path


def _unused_task_records(folder: Path, shards: set[str], ages: Ages) -> Iterator[Path]:
    """Iterate over the records that cannot be used, or whose shards will be deleted.

    The shards of other records are added to ``shards``.
    """
    unused: list[tuple[Path, list[str]]] = []
    for path in list_files(folder, TASK_RECORDS, (".json",)):
        record = read_task_record(folder, path)
        files = [shard.file for shard in record.shards] if record is not None else []
        if ages.is_old(path, *(folder / SHARDS / name for name in files)):
            if record is None or not shards.issuperset(files):
                unused.append((path, files))
        else:
            shards.update(files)
    yield from (path for path, files in unused if not files or not shards.issuperset(files))


def _unused_splits(folder: Path, hashes: set[str], ages: Ages) -> Iterator[Path]:
    """Iterate over the splits of other versions, the JSON of each before its table."""
    stems = sorted({path.with_suffix("") for path in list_files(folder, SPLITS, (".json", ".arrow"))})
    for stem in stems:
        paths = [path for path in (stem.with_name(f"{stem.name}{end}") for end in (".json", ".arrow")) if path.exists()]
        if _split_store_hash(paths[0]) not in hashes and ages.is_old(*paths):
            yield from paths


def _split_store_hash(path: Path) -> str:
    """Return the hash of a split's store version; empty if it cannot be read."""
    try:
        return str(unseal(path.read_bytes(), path.name)["about"]["store"])
    except (IntegrityError, KeyError, TypeError):
        return ""
