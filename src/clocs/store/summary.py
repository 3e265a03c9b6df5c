"""A store in numbers: what went in, what stayed, how many frames it gives."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.compute as pc

from clocs.core.errors import IntegrityError
from clocs.store.duplicates import duplicate_groups
from clocs.store.store import Folder, Store, open_store


def info(store: Folder) -> dict[str, Any]:
    """Counts of a store, or of its folder, as one JSON object.

    ``instances`` are frames x leads by the evaluation policy.
    """
    store = open_store(store)
    groups = duplicate_groups(store)
    members = sum(len(group) for group in groups)
    frames = store.frames("evaluation") if "evaluation" in store.manifest.dataset["frames"] else None
    return {
        "dataset": store.manifest.dataset["name"],
        "version": store.manifest.version,
        "sha256": store.sha256,
        "in": store.manifest.records_in,
        "stored": store.manifest.stored,
        "quarantined": store.manifest.quarantined,
        "patients": pc.count_distinct(store.table(["patient_id"]).column(0)).as_py(),
        "duplicates": {"groups": len(groups), "records": members, "redundant": members - len(groups)},
        "frames": frames.frames if frames is not None else None,
        "instances": len(frames) if frames is not None else None,
        "shards": len(store.manifest.shards),
        "bytes": sum(shard.bytes for shard in store.manifest.shards),
    }


def quarantine(store: Store) -> list[dict[str, Any]]:
    """The refused recordings: record id, source, its hash, reason, all findings."""
    path = store.folder / store.manifest.quarantine.file
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path.name}: cannot be read ({error}); run 'clocs data verify'") from error
