"""Incremental ingests, which read only the recordings that no earlier ingest has read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clocs.datasets import Entry
from clocs.store.manifest import read_manifest, versions
from clocs.store.segments import Segment
from clocs.store.task_records import TaskRecord, read_task_records

Digests = npt.NDArray[np.uint64]


class FinishedTasks:
    """Records of finished tasks by the entries they cover. It needs about 40 bytes of memory per recording.

    A task record is used if all its recordings still exist unchanged. Otherwise the remaining ones are read again.
    Records are ordered by their first entries, so that the same files and records give the same store.

    Args:
        folder: Folder of the store.
    """

    def __init__(self, folder: Path) -> None:
        self._task_records = _task_records(folder)
        digests = [_digest_array(record.entries) for record in self._task_records]
        all_digests = np.concatenate(digests or [np.empty(0, np.uint64)])
        owners = np.repeat(np.arange(len(digests)), [len(entries) for entries in digests])
        self._digests, first = np.unique(all_digests, return_index=True)
        self._owners = owners[first]
        is_repeated = np.ones(len(all_digests), np.bool_)
        is_repeated[first] = False
        self._usable = np.ones(len(digests), np.bool_)
        self._usable[owners[is_repeated]] = False  # another record covers some of the same entries
        self._found = np.zeros(len(self._digests), np.bool_)
        usable = np.flatnonzero(self._usable).tolist()
        self._by_first_entry = {int(digests[number][0]): number for number in usable}
        self._positions = np.full(len(digests), -1)
        """Position of each record's first entry among the entries of the source."""
        self._new_positions = array("q")
        """Positions of the entries that ``new_entries`` returned."""

    def new_entries(self, entries: Callable[[], Iterator[Entry]], digest: Callable[[Entry], str]) -> Iterator[Entry]:
        """Iterate over entries without a record, then over those of records with missing entries."""
        for position, entry in enumerate(entries()):
            number = int(digest(entry), 16)
            index = self._find(number)
            if index >= 0:
                self._found[index] = True
                if number in self._by_first_entry:
                    self._positions[self._by_first_entry[number]] = position
            if index < 0 or not self._usable[self._owners[index]]:
                self._new_positions.append(position)
                yield entry
        broken = np.zeros(len(self._task_records), np.bool_)
        broken[self._owners[~self._found]] = True
        broken &= self._usable
        self._usable &= ~broken
        if broken.any():
            for position, entry in enumerate(entries()):
                index = self._find(int(digest(entry), 16))
                if index >= 0 and broken[self._owners[index]]:
                    self._new_positions.append(position)
                    yield entry

    def merge(self, new: list[TaskRecord]) -> list[TaskRecord]:
        """Return all records of the source, after the tasks of ``new_entries`` are finished in order."""
        starts = np.cumsum([0, *(record.records_in for record in new)])[:-1]
        positioned = [(self._new_positions[start], record) for start, record in zip(starts, new, strict=True)]
        usable = np.flatnonzero(self._usable)
        positioned += [(int(self._positions[number]), self._task_records[number]) for number in usable]
        return [record for _, record in sorted(positioned, key=lambda pair: pair[0])]

    def _find(self, digest: int) -> int:
        index = int(np.searchsorted(self._digests, np.uint64(digest)))
        return index if index < len(self._digests) and int(self._digests[index]) == digest else -1


def _digest_array(digests: str) -> Digests:
    return np.frombuffer(bytes.fromhex(digests), ">u8").astype(np.uint64)


def _task_records(folder: Path) -> list[TaskRecord]:
    """Return the records that list their entries, those of the newest version first."""
    segments = read_manifest(folder).segments if versions(folder) else ()
    newest = {name for info in segments for name in Segment(folder, info).files()}

    def rank(record: TaskRecord) -> int:
        files = {shard.file for shard in record.shards}
        return 1 if not files else 0 if files <= newest else 2

    return sorted((record for record in read_task_records(folder) if record.entries), key=rank)
