"""Commit of a store version from the records of finished tasks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import write_bytes
from clocs.signals.quality import REASONS, GatePolicy
from clocs.store.duplicates import repeated_record_ids
from clocs.store.manifest import SHARDS, Manifest, QuarantineInfo, read_manifest, versions, write_manifest
from clocs.store.reader import StoreReader
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
    repeated = repeated_record_ids(folder / SHARDS, shards)
    if repeated:
        raise ConfigError(f"Record ids must be unique. Repeated: {', '.join(repeated[:5])}.")
    known = versions(folder)
    number = known[-1] + 1 if known else 1
    rows = b"".join(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode() + b"\n" for row in refused)
    count = Counter(row.reason for row in refused)

    def manifest(number: int) -> Manifest:
        listed = QuarantineInfo(
            file=f"quarantine-{number:06d}.jsonl", sha256=hashlib.sha256(rows).hexdigest(), records=len(refused)
        )
        return Manifest(
            version=number,
            dataset=dataset,
            options=options,
            gate=gate.model_dump(mode="json"),
            software={name: version(name) for name in ("clocs", "numpy", "pyarrow")},
            records_in=records_in,
            stored=stored,
            quarantined={reason: count[reason] for reason in REASONS if count[reason]},
            quarantine=listed,
            shards=shards,
        )

    if known and read_manifest(folder).sha256 == manifest(known[-1]).sha256:
        return StoreReader(folder)
    new = manifest(number)
    write_bytes(folder / new.quarantine.file, rows)
    write_manifest(folder, new)
    return StoreReader(folder)
