"""Deletion of older versions of a store, and of files that no remaining version names.

Manifests are deleted first. Killed at any moment, every remaining version is complete, and the next call deletes the
rest.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.files import TEMPORARY, lock_folder, make_temporary, remove_file, sync_folder, unseal
from clocs.store.checksums import SUFFIX, checksums_path
from clocs.store.frame_cache import FRAMES, cached_store_hash
from clocs.store.manifest import Manifest, manifest_path, read_manifest, versions
from clocs.store.segments import METADATA, Segment
from clocs.store.shard import SHARDS
from clocs.store.splits import SPLITS
from clocs.store.task_records import TASK_RECORDS, read_task_record

GRACE: Final = timedelta(days=1)
"""Default time for which running readers and writers are safe."""
_FOLDERS: Final = (SHARDS, METADATA, TASK_RECORDS, SPLITS, FRAMES)


@dataclass(frozen=True)
class PruneResult:
    """Files that were deleted, or would be."""

    versions: tuple[int, ...]
    """Deleted versions."""
    files: tuple[str, ...]
    """Deleted files, as paths within the store."""
    num_bytes: int
    """Size of these files in bytes."""
    dry_run: bool
    """True if nothing was deleted."""


def prune(
    folder: str | os.PathLike[str], keep: int = 1, grace: timedelta = GRACE, *, dry_run: bool = True
) -> PruneResult:
    """Delete older versions of a store, and whatever no remaining version names.

    These are shards, checksums, segments, quarantine lists, task records, splits and frame caches, and remains of
    killed writes. Other files are not touched. A version stays as long as the next one is younger than the grace
    period, because a reader may have opened it. A file that is younger stays, because a writer may need it.

    Args:
        folder: Folder of the store.
        keep: Number of newest versions to keep, at least 1.
        grace: Time for which readers and writers are safe. Choose it longer than the longest run.
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
    root = Path(folder)
    read_manifest(root)  # raises StoreError before the lock creates a folder
    if keep < 1 or grace < timedelta(0):
        raise ConfigError(f"Expected to keep at least 1 version and a grace of at least 0, got {keep} and {grace}.")
    linked = next((name for name in _FOLDERS if (root / name).is_symlink()), None)
    if linked:
        raise ConfigError(f"{root / linked} is a link, so its files may belong to something else. Nothing was deleted.")
    with lock_folder(root):
        ages = _Ages(grace)
        kept = _kept_versions(root, keep, ages)
        gone = [number for number in versions(root) if number not in kept]
        manifests = [manifest_path(root, number) for number in gone]
        files = list(_unnamed_files(root, [read_manifest(root, number) for number in kept], ages))
        paths = [*manifests, *files]
        names = tuple(path.relative_to(root).as_posix() for path in paths)
        num_bytes = sum(path.stat().st_size for path in paths)
        if not dry_run:
            _delete(root, manifests)
            _delete(root, files)
        return PruneResult(tuple(gone), names, num_bytes, dry_run)


class _Ages:
    """Decide whether files are older than the grace period."""

    def __init__(self, grace: timedelta) -> None:
        self._limit = time.time() - grace.total_seconds() if grace else float("inf")

    def is_old(self, *paths: Path) -> bool:
        """Return whether all files that exist are old."""
        return all(path.stat().st_mtime <= self._limit for path in paths if path.exists())


def _kept_versions(folder: Path, keep: int, ages: _Ages) -> list[int]:
    """Return the newest versions, and those whose successor is young."""
    numbers = versions(folder)
    recent = {one for one, after in itertools.pairwise(numbers) if not ages.is_old(manifest_path(folder, after))}
    return sorted({*numbers[-keep:], *recent})


def _unnamed_files(folder: Path, kept: list[Manifest], ages: _Ages) -> Iterator[Path]:
    """Iterate over the old files that no kept version names, in the order in which they are deleted."""
    segments = {info.name: info for manifest in kept for info in manifest.segments}
    shards = {name for info in segments.values() for name in Segment(folder, info).files()}
    hashes = {manifest.content_sha256 for manifest in kept}
    quarantined = {manifest.quarantine.file for manifest in kept}
    yield from _unused_task_records(folder, shards, ages)
    yield from _unused_splits(folder, hashes, ages)
    for path in _list(folder, FRAMES, (".json", ".npy")):
        if cached_store_hash(path) not in hashes and ages.is_old(path):
            yield path
    for path in _list(folder, SHARDS, (".arrow", SUFFIX)):
        shard = path if path.suffix == ".arrow" else path.with_name(path.name.removesuffix(SUFFIX) + ".arrow")
        if shard.name not in shards and ages.is_old(shard, checksums_path(shard)):
            yield path
    for path in _list(folder, METADATA, (".arrow", SUFFIX)):
        if path.name.partition(".")[0] not in segments and ages.is_old(path):
            yield path
    for path in sorted(folder.glob("quarantine-*.jsonl")):
        if path.name not in quarantined and ages.is_old(path):
            yield path
    for name in (".", *_FOLDERS):
        yield from (path for path in _list(folder, name, (TEMPORARY,)) if ages.is_old(path))


def _unused_task_records(folder: Path, shards: set[str], ages: _Ages) -> Iterator[Path]:
    """Iterate over the records that cannot be used, or whose shards will be deleted.

    The shards of other records are added to ``shards``.
    """
    unused: list[tuple[Path, list[str]]] = []
    for path in _list(folder, TASK_RECORDS, (".json",)):
        record = read_task_record(folder, path)
        files = [shard.file for shard in record.shards] if record is not None else []
        if ages.is_old(path, *(folder / SHARDS / name for name in files)):
            if record is None or not shards.issuperset(files):
                unused.append((path, files))
        else:
            shards.update(files)
    yield from (path for path, files in unused if not files or not shards.issuperset(files))


def _unused_splits(folder: Path, hashes: set[str], ages: _Ages) -> Iterator[Path]:
    """Iterate over the splits of other versions, the JSON of each before its table."""
    stems = sorted({path.with_suffix("") for path in _list(folder, SPLITS, (".json", ".arrow"))})
    for stem in stems:
        paths = [path for path in (Path(f"{stem}.json"), Path(f"{stem}.arrow")) if path.exists()]
        if _split_store_hash(paths[0]) not in hashes and ages.is_old(*paths):
            yield from paths


def _split_store_hash(path: Path) -> str:
    """Return the hash of a split's store version; empty if it cannot be read."""
    try:
        return str(unseal(path.read_bytes(), path.name)["about"]["store"])
    except (IntegrityError, KeyError, TypeError):
        return ""


def _list(folder: Path, name: str, endings: tuple[str, ...]) -> list[Path]:
    """List the files of a folder with one of some endings."""
    place = folder / name
    return sorted(path for path in place.iterdir() if path.name.endswith(endings)) if place.is_dir() else []


def _delete(folder: Path, paths: Iterable[Path]) -> None:
    """Delete files in order. The JSON of a split is renamed first, so that its table never lies there alone."""
    last: list[Path] = []
    for path in paths:
        if path.parent == folder / SPLITS and path.suffix == ".json":
            last.append(make_temporary(path))
        else:
            remove_file(path)
    for path in last:
        remove_file(path)
    for changed in (folder, *(folder / name for name in _FOLDERS)):
        if changed.is_dir():
            sync_folder(changed)
