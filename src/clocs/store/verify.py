"""Check every byte of a store against its manifests, and write the checksums that a store lacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ClocsError, IntegrityError, StoreError
from clocs.core.files import find_damage, unseal
from clocs.store.checksums import checksums_path, hash_shard, read_checksums, write_checksums
from clocs.store.manifest import SHARDS, manifest_path, read_manifest, versions
from clocs.store.shard import ShardInfo
from clocs.store.splits import SPLITS
from clocs.store.task_records import TASK_RECORDS


@dataclass(frozen=True)
class Fault:
    """A damaged or missing file."""

    file: str
    problem: str


def verify(folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> list[Fault]:
    """Read and hash all files of all versions of a store.

    Args:
        folder: Folder of the store.
        progress: Called with the bytes done and the bytes in all.

    Returns:
        The damaged and missing files; empty if there are none.
    """
    place = Path(folder)
    faults: list[Fault] = []
    shards: dict[str, ShardInfo] = {}
    if not versions(place):
        read_manifest(place)  # says what is missing
    for number in versions(place):
        try:
            manifest = read_manifest(place, number)
        except ClocsError as error:
            faults.append(Fault(manifest_path(place, number).name, str(error)))
            continue
        shards |= {shard.file: shard for shard in manifest.shards}
        listed = manifest.quarantine
        if problem := find_damage(place / listed.file, listed.sha256, None):
            faults.append(Fault(listed.file, problem))
    for shard in _with_progress(shards, progress):
        faults += _shard(place, shard)
    return faults + _receipts(place) + _splits(place)


def add_checksums(folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> int:
    """Write the checksums that a store lacks, after comparing each shard with its SHA-256.

    Args:
        folder: Folder of the store.
        progress: Called with the bytes done and the bytes in all.

    Returns:
        How many files of checksums were written.

    Raises:
        IntegrityError: A shard does not match the SHA-256 of its manifest.
    """
    place, written = Path(folder), 0
    read_manifest(place)  # refuses a folder that is not a store
    shards = {shard.file: shard for number in versions(place) for shard in read_manifest(place, number).shards}
    for shard in _with_progress(shards, progress):
        for fault in _shard(place, shard):
            if fault.file == f"{SHARDS}/{shard.file}":
                raise IntegrityError(f"{fault.file}: {fault.problem}; restore it from a backup or ingest again")
            path = place / SHARDS / shard.file
            write_checksums(path, *hash_shard(path))
            written += 1
    return written


def _with_progress(shards: dict[str, ShardInfo], progress: Callable[[int, int], None] | None) -> Iterator[ShardInfo]:
    """Yield shards, and report how many bytes of them are done after each."""
    total, done = sum(shard.bytes for shard in shards.values()), 0
    for shard in shards.values():
        yield shard
        done += shard.bytes
        if progress is not None:
            progress(done, total)


def _shard(folder: Path, shard: ShardInfo) -> list[Fault]:
    """Check a shard, and if it is undamaged its checksums."""
    path, name = folder / SHARDS / shard.file, f"{SHARDS}/{shard.file}"
    try:
        size = path.stat().st_size
        if size != shard.bytes:
            return [Fault(name, f"{size} bytes, manifest says {shard.bytes}")]
        sha256, checksums = hash_shard(path)
    except OSError as error:
        return [Fault(name, f"cannot be read: {error.strerror}")]
    if sha256 != shard.sha256:
        return [Fault(name, "content differs from its recorded hash")]
    beside = f"{SHARDS}/{checksums_path(path).name}"
    try:
        stored = read_checksums(path, sha256)
    except StoreError as error:
        return [Fault(beside, str(error))]
    return [] if np.array_equal(stored, checksums) else [Fault(beside, "does not match its shard")]


def _receipts(folder: Path) -> list[Fault]:
    opened = [_unseal(folder, path) for path in sorted((folder / TASK_RECORDS).glob("*.json"))]
    return [found for found in opened if isinstance(found, Fault)]


def _splits(folder: Path) -> list[Fault]:
    """Check both files of every split; each needs the other."""
    faults = []
    for path in sorted({found.with_suffix(".json") for found in (folder / SPLITS).glob("*.*") if _is_split(found)}):
        body = _unseal(folder, path)
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


def _unseal(folder: Path, path: Path) -> dict[str, Any] | Fault:
    try:
        return unseal(path.read_bytes(), path.name)
    except OSError as error:
        return Fault(path.relative_to(folder).as_posix(), f"cannot be read: {error.strerror}")
    except IntegrityError as error:
        return Fault(path.relative_to(folder).as_posix(), str(error))
