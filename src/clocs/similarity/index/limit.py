"""Maximum distance of similar patients, chosen on the validation recordings of the stores of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from clocs.core.errors import ConfigError, StoreError
from clocs.core.storage.files import lock_folder
from clocs.similarity.archive.archive import Archive, patient_ids
from clocs.similarity.index.manifest import DistanceLimit
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import Folder, commit_change, open_snapshot
from clocs.store.withdrawn import read_withdrawn

EXCEEDED: Final = 0.01
"""Fraction of new recordings whose nearest patient may be beyond the limit."""
MAX_RECORDINGS: Final = 10_000
"""Number of recordings of an archive that are searched, at most."""


def limit_distance(folder: Folder, split: str = "default", part: str = "validation") -> DistanceLimit:
    """Choose the maximum distance of similar patients, and store it in an index.

    Each recording of a part of a split is searched without its own patient. The limit is the conformal quantile of the
    distances of the nearest patients: at most 1 % of new recordings of the same kind have no patient within it.

    Args:
        folder: Folder of the index. Its archives and their stores must be available.
        split: Name of a split of each store.
        part: Part of the split.

    Returns:
        The limit, which replaces an earlier one.

    Raises:
        ConfigError: The part has too few recordings.
        StoreError: An archive or a store was moved, or a store has no such split.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 250})
        >>> _ = clocs.split(store, fractions=(0.3, 0.6, 0.1))
        >>> clocs.build_index(clocs.embed_store("cmsc-chapman", store, "archive"), "index")
        >>> clocs.open_index("index").limit_distance().recordings >= 99
        True
    """
    root = Path(folder)
    with lock_folder(root):
        now = open_snapshot(root)
        newest = {info.first_sha256: number for number, info in enumerate(now.manifest.archives)}
        cosines = np.sort(np.concatenate([_nearest_cosines(now, number, split, part) for number in newest.values()]))
        rank = int((len(cosines) + 1) * EXCEEDED)
        if not rank:
            raise ConfigError(
                f"Expected at least {round(1 / EXCEEDED) - 1} recordings, got {len(cosines)} of the part '{part}' of "
                f"'{split}'. Pass another split or part."
            )
        distance = 1 - float(cosines[rank - 1])
        limit = DistanceLimit(distance=distance, split=split, part=part, recordings=len(cosines), exceeded=EXCEEDED)
        about = now.manifest
        commit_change(root, about.model_copy(update={"change": about.change + 1, "limit": limit}))
    return limit


def _nearest_cosines(now: Snapshot, number: int, split: str, part: str) -> npt.NDArray[np.float32]:
    """Return the cosine of each recording of a part and its nearest other patient."""
    archive = now.archive(number)
    if archive is None:
        raise StoreError(f"An archive of the index was moved or replaced: {now.manifest.archives[number].folder}.")
    patients = patient_ids(archive.table(["record_id", "patient_id"]))
    rows = np.flatnonzero(_in_part(archive, split, part) & ~read_withdrawn(now.folder).mask(patients))
    rows = rows[:: -(-len(rows) // MAX_RECORDINGS) or 1]
    own = patients.to_numpy(zero_copy_only=False)[rows]
    found = now.search(archive.vectors(rows), 2)
    is_own = now.patient_ids(found.rows[:, :1])[:, 0] == own
    cosines = np.where(is_own, found.cosines[:, 1], found.cosines[:, 0])
    return np.asarray(cosines[np.isfinite(cosines)])


def _in_part(archive: Archive, split: str, part: str) -> npt.NDArray[np.bool_]:
    """Return which recordings of an archive are in a part of a split of its store."""
    store = archive.open_store()
    wanted = store.table(["record_id"]).filter(store.split(split).mask(part)).column(0).combine_chunks()
    held = archive.table(["record_id"]).column(0)
    return np.asarray(pc.is_in(held, value_set=wanted).to_numpy())
