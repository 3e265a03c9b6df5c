"""Ingest files into a store."""

from __future__ import annotations

import os
from typing import Any

from clocs.core.engine import Engine
from clocs.datasets import Dataset
from clocs.signals.quality import GatePolicy
from clocs.store.store import Store
from clocs.store.task_records import Progress
from clocs.store.writer import write_store


def ingest(
    dataset: str | Dataset,
    source: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    gate: GatePolicy | None = None,
    options: dict[str, Any] | None = None,
    engine: Engine | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Store:
    """Read a dataset's files from a folder or zip into a store, and return it.

    Interrupted, it continues where it was; repeated, it does nothing; over a source that has grown, it
    adds a version. ``gate`` defaults to the dataset's; ``signals.quality.OFF`` lets everything pass.
    """
    written = write_store(
        dataset, source, folder, gate=gate, options=options, engine=engine, workers=workers, progress=progress
    )
    return Store(written.folder, written.manifest.version)


def count_removed_recordings(store: Store, older: Store) -> int:
    """How many recordings of an older version a newer one lacks; shards that both have are not read."""
    return len(_record_ids(older, but=store) - _record_ids(store, but=older))


def _record_ids(store: Store, but: Store) -> set[str]:
    shared = {shard.file for shard in but.manifest.shards}
    own = [number for number, shard in enumerate(store.manifest.shards) if shard.file not in shared]
    return {name for number in own for name in store.shard(number).column("record_id").to_pylist()}
