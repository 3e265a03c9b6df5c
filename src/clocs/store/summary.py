"""A store in numbers: what went in, what stayed, how many frames it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.compute as pc

from clocs.store.duplicates import duplicate_groups
from clocs.store.manifest import read_quarantine
from clocs.store.reader import Folder
from clocs.store.splits import PARTS, load_split
from clocs.store.store import Store, open_store

TOLD: Final = ("record_id", "patient_id", "site", "age", "sex", "labels", "rate", "leads", "format", "source", "notes")
"""What is listed of a recording."""


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


def recordings(store: Store, split: str | None = None) -> Iterator[dict[str, Any]]:
    """What a store says of each recording, in its order: plain values, and its part of a split where one is named."""
    table = store.table([*TOLD, "samples"])
    parts = load_split(store, split).parts.tolist() if split else []
    for number, row in enumerate(table.to_pylist()):
        seconds = row.pop("samples") / row["rate"]
        yield row | {"seconds": round(seconds, 3)} | ({"part": PARTS[parts[number]]} if split else {})


def refusals(store: Store) -> Iterator[dict[str, Any]]:
    """Each recording that was refused, its file, and all that was found."""
    for row in quarantine(store):
        found = [f"{each['reason']}: {finding_in_words(each)}" for each in row["findings"]]
        yield {"record_id": row["record_id"], "source": row["source"], "reason": row["reason"], "findings": found}


def quarantine(store: Store) -> list[dict[str, Any]]:
    """Return the refused recordings: record id, source, its hash, reason, all findings."""
    listed = store.manifest.quarantine
    return read_quarantine(store.folder / listed.file, listed.sha256)


def finding_in_words(finding: dict[str, str]) -> str:
    """Of a quarantined recording: the lead, if it is one's, and what was measured."""
    return " ".join(filter(None, (finding["lead"], finding["detail"])))
