"""Commit of a store version, from the records of finished tasks or with rewritten shards."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, StoreError
from clocs.core.hashes import content_hash
from clocs.core.storage.files import write_bytes
from clocs.signals.quality import REASONS, GatePolicy
from clocs.signals.source_check import SignalSummary
from clocs.store.manifest import Manifest, QuarantineInfo, read_manifest, read_quarantine, versions, write_manifest
from clocs.store.reader import StoreReader
from clocs.store.segment_plan import plan_segments, repeated_record_ids
from clocs.store.segments import Segment, SegmentInfo
from clocs.store.task_records import QuarantinedRecording, TaskRecord
from clocs.store.withdrawn import read_withdrawn


def commit_version(
    folder: Path,
    records: list[TaskRecord],
    dataset: dict[str, Any],
    options: dict[str, Any],
    gate: GatePolicy,
    signals: SignalSummary,
) -> StoreReader:
    """Commit a version from task records, unless the newest version is equal."""
    refused = [row for record in records for row in record.refused]
    shards = tuple(shard for record in records for shard in record.shards)
    previous = read_manifest(folder) if versions(folder) else None
    known = previous.segments if previous is not None else ()
    segments = plan_segments(folder, known, shards)
    repeated = repeated_record_ids(folder, segments, known)
    if repeated:
        raise ConfigError(f"Record ids must be unique. Repeated: {', '.join(repeated[:5])}.")
    about = {"dataset": dataset, "options": options, "gate": gate.model_dump(mode="json")}
    counts = {name: sum(getattr(record, name) for record in records) for name in ("records_in", "withdrawn")}
    _commit(folder, previous, {**about, **counts}, refused, segments, signals)
    return StoreReader(folder)


def commit_appended(
    folder: Path,
    records: list[TaskRecord],
    dataset: dict[str, Any],
    options: dict[str, Any],
    gate: GatePolicy,
    signals: SignalSummary,
) -> StoreReader:
    """Commit a version with the recordings of the newest version followed by those of task records.

    Task records that the newest version includes already add nothing. The summary of signals is that of the new ones.
    """
    previous = read_manifest(folder)
    older = [info for segment in previous.segments for info in Segment(folder, segment).shard_infos]
    rows = read_quarantine(folder / previous.quarantine.file, previous.quarantine.sha256)
    refused = [QuarantinedRecording.model_validate(row) for row in rows]
    files, quarantined = {info.file for info in older}, set(refused)
    new = [
        record
        for record in records
        if not (files.issuperset(info.file for info in record.shards) and quarantined.issuperset(record.refused))
    ]
    segments = plan_segments(folder, previous.segments, [*older, *(info for record in new for info in record.shards)])
    repeated = repeated_record_ids(folder, segments, previous.segments)
    if repeated:
        raise ConfigError(f"Record ids must be unique. Already in the store: {', '.join(repeated[:5])}.")
    about = {
        "dataset": dataset,
        "options": options if new else previous.options,
        "gate": gate.model_dump(mode="json") if new else previous.gate,
        "records_in": previous.records_in + sum(record.records_in for record in new),
        "withdrawn": previous.withdrawn + sum(record.withdrawn for record in new),
    }
    _commit(folder, previous, about, [*refused, *(row for record in new for row in record.refused)], segments, signals)
    return StoreReader(folder)


def commit_rewritten(folder: Path, segments: Sequence[SegmentInfo], num_removed: int = 0) -> Manifest:
    """Commit a version with other shards for the same input, unless the newest version is equal.

    Quarantined recordings of withdrawn patients are left out.

    Args:
        folder: Folder of the store.
        segments: Segments of the new version.
        num_removed: Number of stored recordings that the new version lacks.

    Returns:
        Manifest of the newest version.
    """
    previous, patients = read_manifest(folder), read_withdrawn(folder)
    rows = read_quarantine(folder / previous.quarantine.file, previous.quarantine.sha256)
    refused = [QuarantinedRecording.model_validate(row) for row in rows if row["patient_id"] not in patients]
    about = previous.model_dump(mode="json", include={"dataset", "options", "gate", "records_in"})
    withdrawn = previous.withdrawn + num_removed + len(rows) - len(refused)
    _commit(folder, previous, {**about, "withdrawn": withdrawn}, refused, segments, previous.signals)
    return read_manifest(folder)


def _commit(
    folder: Path,
    previous: Manifest | None,
    about: dict[str, Any],
    refused: Sequence[QuarantinedRecording],
    segments: Sequence[SegmentInfo],
    signals: SignalSummary | None,
) -> None:
    """Write quarantine list and manifest of the next version, unless the previous version is equal."""
    refused = sorted(refused, key=lambda row: (row.source, row.record_id))
    stored, count = sum(info.records for info in segments), Counter(row.reason for row in refused)
    if about["records_in"] != stored + len(refused) + about["withdrawn"]:
        raise StoreError(
            f"{about['records_in']} input recordings, but {stored} stored, {len(refused)} quarantined and "
            f"{about['withdrawn']} withdrawn. Please report this."
        )
    content: dict[str, Any] = {
        **about,
        "stored": stored,
        "quarantined": {reason: count[reason] for reason in REASONS if count[reason]},
    }
    rows = b"".join(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode() + b"\n" for row in refused)
    listed: dict[str, Any] = {"sha256": hashlib.sha256(rows).hexdigest(), "records": len(refused)}
    hashes = [name for info in segments for name in Segment(folder, info).shard_table.column("sha256").to_pylist()]
    labelled = {name: value for name, value in about["dataset"].items() if name != "tasks"}
    content_sha256 = content_hash({**content, "dataset": labelled, "quarantine": listed, "shards": hashes})
    if previous is not None and (previous.content_sha256, previous.dataset) == (content_sha256, about["dataset"]):
        return
    number = previous.version + 1 if previous is not None else 1
    file = f"quarantine-{number:06d}-{listed['sha256'][:16]}.jsonl"
    write_bytes(folder / file, rows)
    new = Manifest(
        version=number,
        **content,
        signals=signals,
        software={name: version(name) for name in ("clocs", "numpy", "pyarrow")},
        quarantine=QuarantineInfo(file=file, **listed),
        segments=tuple(segments),
        first_sha256=content_sha256 if previous is None else previous.first_sha256,
        content_sha256=content_sha256,
    )
    write_manifest(folder, new)
