"""Commit of a version of an archive: list of refused recordings and, last, the manifest."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clocs.core.errors import StoreError
from clocs.core.storage.files import write_bytes
from clocs.similarity.archive.embedding_task import RefusedRecording
from clocs.similarity.archive.manifest import (
    ArchiveManifest,
    ArchiveShardInfo,
    read_archive_manifest,
    write_archive_manifest,
)
from clocs.similarity.checked_files import bytes_info, check_file, file_damage
from clocs.store.manifest import versions


def commit_archive(
    folder: Path, about: dict[str, Any], shards: Sequence[ArchiveShardInfo], refused: Sequence[RefusedRecording]
) -> ArchiveManifest:
    """Write the next version of an archive, unless the newest version has the same content.

    Args:
        folder: Folder of the archive.
        about: Fields of the manifest that do not follow from shards and refused recordings.
        shards: Shards in order.
        refused: Refused recordings in order.

    Returns:
        Manifest of the newest version.

    Raises:
        StoreError: An input recording is neither embedded nor refused nor withdrawn.
    """
    embedded = sum(shard.rows for shard in shards)
    if about["records_in"] != embedded + len(refused) + about["withdrawn"]:
        raise StoreError(
            f"{about['records_in']} input recordings, but {embedded} embedded, {len(refused)} refused and "
            f"{about['withdrawn']} withdrawn. Please report this."
        )
    rows = b"".join(json.dumps(row.model_dump(), sort_keys=True).encode() + b"\n" for row in refused)
    previous = read_archive_manifest(folder) if versions(folder) else None

    def manifest(number: int, first_sha256: str) -> ArchiveManifest:
        return ArchiveManifest(
            **about,
            version=number,
            embedded=embedded,
            refused=dict(sorted(Counter(row.reason for row in refused).items())),
            refused_list=bytes_info(f"refused-{number:06d}-{hashlib.sha256(rows).hexdigest()[:16]}.jsonl", rows),
            shards=tuple(shards),
            first_sha256=first_sha256,
        )

    if previous is None:
        new = manifest(1, manifest(1, "").sha256)
    elif manifest(previous.version, previous.first_sha256) == previous:
        if file_damage(folder, previous.refused_list):  # damaged or missing; the task records have its content
            write_bytes(folder / previous.refused_list.file, rows)
        return previous
    else:
        new = manifest(previous.version + 1, previous.first_sha256)
    write_bytes(folder / new.refused_list.file, rows)
    write_archive_manifest(folder, new)
    return new


def read_refused(folder: Path, manifest: ArchiveManifest) -> list[RefusedRecording]:
    """Read the refused recordings of a version.

    Raises:
        IntegrityError: The list is damaged.
    """
    check_file(folder, manifest.refused_list)
    lines = (folder / manifest.refused_list.file).read_bytes().splitlines()
    return [RefusedRecording.model_validate_json(line) for line in lines]
