"""Checking that every byte of a store is what its manifests say."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clocs.core.errors import ClocsError, IntegrityError
from clocs.core.files import damage, unseal
from clocs.store.ingest import RECEIPTS
from clocs.store.manifest import SHARDS, manifest_path, read_manifest, versions
from clocs.store.splits import SPLITS


@dataclass(frozen=True)
class Fault:
    """A file that is not as it should be."""

    file: str
    problem: str


def verify(folder: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> list[Fault]:
    """Read and hash all files of all versions of a store; an empty list means all is well.

    ``progress`` is called with bytes done and bytes in all.
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
        done += size or 0
        if progress is not None:
            progress(done, total)
    return faults + _receipts(place) + _splits(place)


def _receipts(folder: Path) -> list[Fault]:
    opened = [_unseal(folder, path) for path in sorted((folder / RECEIPTS).glob("*.json"))]
    return [found for found in opened if isinstance(found, Fault)]


def _splits(folder: Path) -> list[Fault]:
    faults = []
    for path in sorted((folder / SPLITS).glob("*.json")):
        body = _unseal(folder, path)
        if isinstance(body, Fault):
            faults.append(body)
            continue
        arrow = path.with_suffix(".arrow")
        problem = damage(arrow, body.get("arrow_sha256", ""), None)
        if problem:
            faults.append(Fault(f"{SPLITS}/{arrow.name}", problem))
    return faults


def _unseal(folder: Path, path: Path) -> dict[str, Any] | Fault:
    try:
        return unseal(path.read_bytes(), path.name)
    except (OSError, IntegrityError) as error:
        return Fault(path.relative_to(folder).as_posix(), str(error))
