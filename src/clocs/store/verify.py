"""Verification of every byte of a store against its manifests, and addition of missing checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ClocsError, IntegrityError, StoreError
from clocs.core.hashes import find_damage, unseal
from clocs.core.storage.files import temporary_path
from clocs.core.storage.locations import to_location
from clocs.store.checksums import checksums_path, hash_shard, read_checksums, write_checksums
from clocs.store.manifest import manifest_path, read_manifest, versions
from clocs.store.segments import METADATA, Segment, SegmentInfo, segment_path
from clocs.store.shard import SHARDS, ShardInfo
from clocs.store.splits import SPLITS
from clocs.store.task_records import TASK_RECORDS
from clocs.store.withdrawn import WITHDRAWN


@dataclass(frozen=True)
class Fault:
    """A damaged or missing file."""

    file: str
    """Path within the store."""
    problem: str
    """Description of the problem."""


def verify(folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> list[Fault]:
    """Read all files of all versions of a store and compare them with their hashes.

    Args:
        folder: Folder of the store.
        progress: Called with the bytes done and the total.

    Returns:
        Damaged and missing files; empty for an intact store.

    Raises:
        StoreError: The folder is not a store.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 2})
        >>> clocs.verify(store)
        []
    """
    root = to_location(folder)
    faults: list[Fault] = []
    segments: dict[str, SegmentInfo] = {}
    if not versions(root):
        read_manifest(root)  # raises StoreError
    for number in versions(root):
        try:
            manifest = read_manifest(root, number)
        except ClocsError as error:
            faults.append(Fault(manifest_path(root, number).name, str(error)))
            continue
        segments |= {info.name: info for info in manifest.segments}
        quarantine = manifest.quarantine
        if problem := find_damage(root / quarantine.file, quarantine.sha256, None):
            faults.append(Fault(quarantine.file, problem))
    shards: dict[str, ShardInfo] = {}
    listed = []
    for info in segments.values():
        segment = Segment(root, info)
        try:
            shards |= {shard.file: shard for shard in segment.shard_infos}
            listed.append(segment)
        except IntegrityError as error:
            faults.append(Fault(f"{METADATA}/{info.name}.shards.arrow", str(error)))
    for shard in _with_progress(shards, progress):
        faults += _check_shard(root, shard)
    damaged = {Path(fault.file).name.partition(".")[0] for fault in faults}  # of shards and their checksums
    for segment in listed:
        if not damaged.intersection(name.partition(".")[0] for name in segment.files()):
            faults += _check_segment(segment)
    return faults + _check_task_records(root) + _check_splits(root) + check_withdrawn(root)


def add_checksums(folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> int:
    """Write the checksums that a store lacks, after comparing each shard with its SHA-256.

    Args:
        folder: Folder of the store.
        progress: Called with the bytes done and the total.

    Returns:
        Number of checksum files written.

    Raises:
        IntegrityError: A shard does not match the SHA-256 of its manifest.
    """
    root, written = to_location(folder), 0
    read_manifest(root)  # raises StoreError if the folder is not a store
    infos = {info.name: info for number in versions(root) for info in read_manifest(root, number).segments}
    shards = {shard.file: shard for info in infos.values() for shard in Segment(root, info).shard_infos}
    for shard in _with_progress(shards, progress):
        for fault in _check_shard(root, shard):
            if fault.file == f"{SHARDS}/{shard.file}":
                raise IntegrityError(f"{fault.file}: {fault.problem}. Restore it from a backup or ingest again.")
            path = root / SHARDS / shard.file
            write_checksums(path, *hash_shard(path))
            written += 1
    return written


def _with_progress(shards: dict[str, ShardInfo], progress: Callable[[int, int], None] | None) -> Iterator[ShardInfo]:
    """Iterate over shards, and report the bytes done after each."""
    total, done = sum(shard.bytes for shard in shards.values()), 0
    for shard in shards.values():
        yield shard
        done += shard.bytes
        if progress is not None:
            progress(done, total)


def _check_shard(folder: Path, shard: ShardInfo) -> list[Fault]:
    """Check a shard and, if it is intact, its checksums."""
    path, name = folder / SHARDS / shard.file, f"{SHARDS}/{shard.file}"
    try:
        size = path.stat().st_size
        if size != shard.bytes:
            return [Fault(name, f"{size} bytes, but the manifest states {shard.bytes}")]
        sha256, checksums = hash_shard(path)
    except OSError as error:
        return [Fault(name, f"cannot be read: {error.strerror}")]
    if sha256 != shard.sha256:
        return [Fault(name, "content differs from its recorded hash")]
    checksums_name = f"{SHARDS}/{checksums_path(path).name}"
    try:
        stored = read_checksums(path, sha256)
    except StoreError as error:
        return [Fault(checksums_name, str(error))]
    return [] if np.array_equal(stored, checksums) else [Fault(checksums_name, "does not match its shard")]


def _check_segment(segment: Segment) -> list[Fault]:
    """Compare the files of a segment with their checksums and with the shards. A missing file is no fault."""
    faults = []
    for kind in ("records", "ids"):
        path = segment_path(segment.folder, segment.info.name, kind)
        file, problem = path, ""
        if path.exists() and checksums_path(path).exists():
            try:
                file = checksums_path(path)
                checksums = read_checksums(path)
                file = path
                if not np.array_equal(hash_shard(path)[1], checksums):
                    problem = "content differs from its checksums"
                elif not segment.read(kind).equals(segment.computed(kind)):
                    problem = "differs from its shards"
            except (ClocsError, OSError) as error:
                problem = str(error)
        if problem:
            faults.append(Fault(f"{METADATA}/{file.name}", f"{problem}. Delete it, and it is written again"))
    return faults


def _check_task_records(folder: Path) -> list[Fault]:
    opened = [_read_sealed(folder, path) for path in sorted((folder / TASK_RECORDS).glob("*.json"))]
    return [found for found in opened if isinstance(found, Fault)]


def check_withdrawn(folder: Path) -> list[Fault]:
    """Check the hashes of withdrawn patients of a store, archive or index."""
    path = folder / WITHDRAWN
    found = _read_sealed(folder, path) if path.exists() else None
    return [found] if isinstance(found, Fault) else []


def _check_splits(folder: Path) -> list[Fault]:
    """Check both files of every split. A split whose JSON is partial is being written or removed."""
    faults = []
    for path in sorted({found.with_suffix(".json") for found in (folder / SPLITS).glob("*.*") if _is_split(found)}):
        if not path.exists() and temporary_path(path).exists():
            continue
        body = _read_sealed(folder, path)
        if isinstance(body, Fault):
            faults.append(body)
            continue
        arrow = path.with_suffix(".arrow")
        problem = find_damage(arrow, body.get("arrow_sha256", ""), None)
        if problem:
            faults.append(Fault(f"{SPLITS}/{arrow.name}", problem))
    return faults


def _is_split(path: Path) -> bool:
    return path.suffix in (".json", ".arrow")


def _read_sealed(folder: Path, path: Path) -> dict[str, Any] | Fault:
    try:
        return unseal(path.read_bytes(), path.name)
    except OSError as error:
        return Fault(path.relative_to(folder).as_posix(), f"cannot be read: {error.strerror}")
    except IntegrityError as error:
        return Fault(path.relative_to(folder).as_posix(), str(error))
