"""Check every byte of a store against its manifests, and write the checksums that a store lacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clocs.core.errors import ClocsError, IntegrityError
from clocs.core.files import damage, unseal
from clocs.store.checksums import checksum_damage, checksums_of, checksums_path, write_checksums
from clocs.store.ingest import RECEIPTS
from clocs.store.manifest import SHARDS, manifest_path, read_manifest, versions
from clocs.store.splits import SPLITS


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
    expected: dict[str, tuple[str, int | None]] = {}
    if not versions(place):
        read_manifest(place)  # says what is missing
    for number in versions(place):
        try:
            manifest = read_manifest(place, number)
        except ClocsError as error:
            faults.append(Fault(manifest_path(place, number).name, str(error)))
            continue
        expected[manifest.quarantine.file] = (manifest.quarantine.sha256, None)
        expected |= {f"{SHARDS}/{shard.file}": (shard.sha256, shard.bytes) for shard in manifest.shards}
    total = sum(size or 0 for _, size in expected.values())
    done = 0
    for name, (sha256, size) in expected.items():
        problem = damage(place / name, sha256, size)
        if problem:
            faults.append(Fault(name, problem))
        elif name.startswith(SHARDS) and (problem := checksum_damage(place / name, sha256)):
            faults.append(Fault(f"{SHARDS}/{checksums_path(place / name).name}", problem))
        done += size or 0
        if progress is not None:
            progress(done, total)
    return faults + _receipts(place) + _splits(place)


def _receipts(folder: Path) -> list[Fault]:
    opened = [_unseal(folder, path) for path in sorted((folder / RECEIPTS).glob("*.json"))]
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
        problem = damage(arrow, body.get("arrow_sha256", ""), None)
        if problem:
            faults.append(Fault(f"{SPLITS}/{arrow.name}", problem))
    return faults


def _is_split(path: Path) -> bool:
    return path.suffix in (".json", ".arrow")


def _unseal(folder: Path, path: Path) -> dict[str, Any] | Fault:
    try:
        return unseal(path.read_bytes(), path.name)
    except (OSError, IntegrityError) as error:
        return Fault(path.relative_to(folder).as_posix(), str(error))


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
    place, written, done = Path(folder), 0, 0
    read_manifest(place)  # refuses a folder that is not a store
    shards = {shard.file: shard for number in versions(place) for shard in read_manifest(place, number).shards}
    total = sum(shard.bytes for shard in shards.values())
    for shard in shards.values():
        path = place / SHARDS / shard.file
        if not checksums_path(path).exists() or checksum_damage(path, shard.sha256):
            if problem := damage(path, shard.sha256, shard.bytes):
                raise IntegrityError(f"{SHARDS}/{shard.file}: {problem}; restore it from a backup or ingest again")
            write_checksums(path, shard.sha256, checksums_of(path))
            written += 1
        done += shard.bytes
        if progress is not None:
            progress(done, total)
    return written
