"""Commit of a store version from the records of finished tasks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import content_hash, write_bytes
from clocs.signals.quality import REASONS, GatePolicy
from clocs.store.manifest import Manifest, QuarantineInfo, read_manifest, versions, write_manifest
from clocs.store.reader import StoreReader
from clocs.store.segments import Segment, plan_segments, repeated_record_ids
from clocs.store.task_records import TaskRecord


def commit_version(
    folder: Path, records: list[TaskRecord], dataset: dict[str, Any], options: dict[str, Any], gate: GatePolicy
) -> StoreReader:
    """Commit a version from task records, unless the newest version is equal."""
    refused = [row for record in records for row in record.refused]
    shards = tuple(shard for record in records for shard in record.shards)
    records_in, stored = sum(record.records_in for record in records), sum(shard.records for shard in shards)
    if records_in != stored + len(refused):
        raise StoreError(
            f"{records_in} input recordings, but {stored} stored and {len(refused)} quarantined. Please report this."
        )
    previous = read_manifest(folder) if versions(folder) else None
    known = previous.segments if previous is not None else ()
    segments = plan_segments(folder, known, shards)
    repeated = repeated_record_ids(folder, segments, known)
    if repeated:
        raise ConfigError(f"Record ids must be unique. Repeated: {', '.join(repeated[:5])}.")
    rows = b"".join(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode() + b"\n" for row in refused)
    count = Counter(row.reason for row in refused)
    content: dict[str, Any] = {
        "dataset": dataset,
        "options": options,
        "gate": gate.model_dump(mode="json"),
        "records_in": records_in,
        "stored": stored,
        "quarantined": {reason: count[reason] for reason in REASONS if count[reason]},
    }
    listed: dict[str, Any] = {"sha256": hashlib.sha256(rows).hexdigest(), "records": len(refused)}
    hashes = [name for info in segments for name in Segment(folder, info).shard_table.column("sha256").to_pylist()]
    content_sha256 = content_hash({**content, "quarantine": listed, "shards": hashes})
    if previous is None or previous.content_sha256 != content_sha256:
        number = previous.version + 1 if previous is not None else 1
        file = f"quarantine-{number:06d}.jsonl"
        write_bytes(folder / file, rows)
        new = Manifest(
            version=number,
            **content,
            software={name: version(name) for name in ("clocs", "numpy", "pyarrow")},
            quarantine=QuarantineInfo(file=file, **listed),
            segments=tuple(segments),
            first_sha256=content_sha256 if previous is None else previous.first_sha256,
            content_sha256=content_sha256,
        )
        write_manifest(folder, new)
    return StoreReader(folder)
