"""Withdrawal of patients from an index, and hashes that keep them out of later additions.

The hashes are written first. A first change hides the patients from every search. A second one replaces the volumes
that hold their vectors, and removes the old files. Killed at any step, a repeated call continues.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.storage.files import lock_folder
from clocs.similarity.index.manifest import IndexManifest, read_index_manifest
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import Folder, commit_change, next_manifest, open_snapshot, writer_for
from clocs.store.named_patients import NamedPatients, WithdrawalCounts, name_patients
from clocs.store.withdrawn import read_withdrawn, write_withdrawn


@dataclass(frozen=True)
class IndexWithdrawal(WithdrawalCounts):
    """Outcome of a withdrawal from an index."""

    recordings: int
    """Number of recordings that the index lost."""


def withdraw_from_index(
    folder: Folder, patients: Iterable[str], *, key: Folder | None = None, allow_unknown: bool = False
) -> IndexWithdrawal:
    """Withdraw patients from an index.

    No search returns them, no file holds them, and no later addition brings them back. Only volumes with their rows are
    rewritten. The index keeps hashes of the ids.

    Args:
        folder: Folder of the index.
        patients: Ids of patients.
        key: Key file of the pseudonyms, needed if the ids are original patient numbers.
        allow_unknown: Keep ids that the index does not have out of later additions, instead of raising an error.

    Returns:
        Counts of withdrawn, unknown and previously withdrawn ids.

    Raises:
        ConfigError: An id is unknown, or the key is missing or wrong. Then nothing is changed.
        StoreError: The folder is not an index, or another process writes to it.
    """
    root = Path(folder)
    read_index_manifest(root)  # raises StoreError before the lock creates a folder
    with lock_folder(root):
        now = open_snapshot(root)
        named = _named(now.manifest, patients, key)
        before = read_withdrawn(root, now.manifest.archives[0].sha256)
        found = _held(now, named)
        counts = named.count(root, before, found, found, allow_unknown=allow_unknown)
        after = before.add(named.ids)
        if after != before:
            write_withdrawn(root, after)
        num_recordings = hide_patients(now, named)
        _rewrite_volumes(open_snapshot(root, now), named)
        return IndexWithdrawal(**vars(counts), recordings=num_recordings)


def count_patients(folder: Folder, patients: Iterable[str], key: Folder | None = None) -> int:
    """Return the number of patients that an index holds.

    Args:
        folder: Folder of the index.
        patients: Ids of patients.
        key: Key file of the pseudonyms, needed if the ids are original patient numbers.

    Returns:
        Number of ids that were found.
    """
    now = Snapshot(Path(folder))
    return len(_held(now, _named(now.manifest, patients, key)))


def hide_patients(now: Snapshot, named: NamedPatients) -> int:
    """Commit a change after which no search returns some patients. Their vectors stay on the disk.

    Args:
        now: State of the index, whose folder is locked.
        named: The patients.

    Returns:
        Number of their recordings.
    """
    writer = writer_for(now)
    rows = writer.rows_of(_array(named))
    if not any(map(len, rows)):
        return 0
    volumes = zip(writer.volumes_with_offsets(), rows, strict=True)
    taken = [volume.patients.column("recordings").take(pa.array(held - first)) for (volume, first), held in volumes]
    num_recordings = sum(len(part.flatten()) for part in taken)
    writer.dead = np.union1d(now.dead, np.concatenate(rows))
    recordings = now.manifest.recordings - num_recordings
    commit_change(now.folder, next_manifest(now.manifest, writer, patients=writer.num_patients, recordings=recordings))
    return num_recordings


def _rewrite_volumes(now: Snapshot, named: NamedPatients) -> None:
    """Commit a change without the hidden rows of some patients."""
    affected = {number for number, volume in enumerate(now.volumes) if len(volume.rows_of(_array(named)))}
    if affected:
        writer = writer_for(now)
        writer.rewrite_volumes(affected)
        commit_change(now.folder, next_manifest(now.manifest, writer))


def _named(manifest: IndexManifest, patients: Iterable[str], key: Folder | None) -> NamedPatients:
    return name_patients(patients, key, {info.key for info in manifest.archives}, "index")


def _array(named: NamedPatients) -> pa.Array:
    return pa.array(sorted(named.ids), pa.large_string())


def _held(now: Snapshot, named: NamedPatients) -> set[str]:
    """Return the ids with rows in the index, hidden or not."""
    ids = _array(named)
    columns = (volume.patients.column("patient_id") for volume in now.volumes)
    return {name for column in columns for name in column.filter(pc.is_in(column, value_set=ids)).to_pylist()}
