"""Ingest of recordings into a store."""

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
    append: bool = False,
    measure: bool = False,
) -> Store:
    """Read the recordings of a dataset into a store.

    Every input recording is either stored or quarantined with a reason. Call it again to continue an interrupted
    ingest. If the source has new files, another version is added to the store.

    Args:
        dataset: A dataset or its name. ``"folder"`` reads any folder of ECG files.
        source: Folder or zip of the files; None for a dataset without files.
        folder: Folder of the store.
        gate: Quality checks; by default the dataset's.
        options: Options of the dataset by name.
        engine: How recordings are distributed; by default ``processes`` with several workers, otherwise ``serial``.
        workers: Number of parallel workers.
        progress: Called with the recordings done and the quarantined recordings.
        append: True to keep all recordings of the newest version and add those of the source. Only files of the source
            are read. By default, the new version has only the recordings of the source.
        measure: True to measure each recording and to keep the values as extra columns, such as
            ``measured_heart_rate`` and ``measured_paced``, see :func:`clocs.measure`.

    Returns:
        The store, open at the new version.

    Raises:
        ConfigError: An option is invalid, the source has no recordings, or the folder holds another dataset.
        StoreError: The source cannot be read or the store cannot be written.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> len(store), store.manifest.quarantined
        (4, {})
        >>> store.recording(0).leads[:3]
        ('I', 'II', 'III')
    """
    written = write_store(
        dataset,
        source,
        folder,
        gate=gate,
        options=options,
        engine=engine,
        workers=workers,
        progress=progress,
        append=append,
        measure=measure,
    )
    return Store(written.folder, written.manifest.version)


def count_removed_recordings(store: Store, older: Store) -> int:
    """Count the recordings of an older version that a newer version lacks. Shared shards are not read."""
    return len(_own_record_ids(older, store) - _own_record_ids(store, older))


def _own_record_ids(store: Store, other: Store) -> set[str]:
    """Return the record ids in shards that the other version lacks."""
    shared = {shard.file for shard in other.shards}
    own_shards = [number for number, shard in enumerate(store.shards) if shard.file not in shared]
    return {name for number in own_shards for name in store.shard(number).column("record_id").to_pylist()}
