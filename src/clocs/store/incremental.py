"""Incremental ingests: of a source that grows, only what no earlier run has read is read."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clocs.datasets import Entry
from clocs.store.manifest import read_manifest, versions
from clocs.store.task_records import Receipt, read_task_records

Digests = npt.NDArray[np.uint64]


class Pool:
    """Receipts of a store by the entries they cover; some 100 bytes of memory a recording.

    A receipt is used if every recording it covers is still there unchanged; otherwise those that are there are read
    again. Receipts come in the order of their first entries, so that the same files and receipts give the same store.
    """

    def __init__(self, folder: Path) -> None:
        self._receipts = _receipts(folder)
        digests = [_numbers(receipt.entries) for receipt in self._receipts]
        every = np.concatenate(digests or [np.empty(0, np.uint64)])
        owners = np.repeat(np.arange(len(digests)), [len(each) for each in digests])
        self._digests, first = np.unique(every, return_index=True)
        self._owners = owners[first]
        again = np.ones(len(every), np.bool_)
        again[first] = False
        self._usable = np.ones(len(digests), np.bool_)
        self._usable[owners[again]] = False  # another receipt covers some of the same
        self._seen = np.zeros(len(self._digests), np.bool_)
        usable = np.flatnonzero(self._usable).tolist()
        self._heads = {self._receipts[number].entries[0]: number for number in usable}
        self._places = np.full(len(digests), -1)
        """Of the receipts: where among the source's entries their first one stands."""
        self._unread = array("q")
        """The places of what ``unread`` gave."""

    def unread(self, entries: Callable[[], Iterator[Entry]], digest: Callable[[Entry], str]) -> Iterator[Entry]:
        """Entries that no receipt covers; then those of receipts of which something is gone."""
        for place, entry in enumerate(entries()):
            name = digest(entry)
            at = self._find(name)
            if at >= 0:
                self._seen[at] = True
                if name in self._heads:
                    self._places[self._heads[name]] = place
            if at < 0 or not self._usable[self._owners[at]]:
                self._unread.append(place)
                yield entry
        broken = np.zeros(len(self._receipts), np.bool_)
        broken[self._owners[~self._seen]] = True
        broken &= self._usable
        self._usable &= ~broken
        if broken.any():
            for place, entry in enumerate(entries()):
                at = self._find(digest(entry))
                if at >= 0 and broken[self._owners[at]]:
                    self._unread.append(place)
                    yield entry

    def joined(self, new: list[Receipt]) -> list[Receipt]:
        """All receipts of the source, once ``unread`` is through and tasks of its entries, in order, are done."""
        starts = np.cumsum([0, *(receipt.records_in for receipt in new)])[:-1]
        placed = [(self._unread[start], receipt) for start, receipt in zip(starts, new, strict=True)]
        usable = np.flatnonzero(self._usable)
        placed += [(int(self._places[number]), self._receipts[number]) for number in usable]
        return [receipt for _, receipt in sorted(placed, key=lambda pair: pair[0])]

    def _find(self, digest: str) -> int:
        number = np.uint64(int(digest, 16))
        at = int(np.searchsorted(self._digests, number))
        return at if at < len(self._digests) and self._digests[at] == number else -1


def _numbers(digests: tuple[str, ...]) -> Digests:
    return np.array([int(digest, 16) for digest in digests], np.uint64)


def _receipts(folder: Path) -> list[Receipt]:
    """Those that name their entries; first what the newest version is made of."""
    newest = {shard.file for shard in read_manifest(folder).shards} if versions(folder) else set()

    def rank(receipt: Receipt) -> int:
        files = {shard.file for shard in receipt.shards}
        return 1 if not files else 0 if files <= newest else 2

    return sorted((receipt for receipt in read_task_records(folder) if receipt.entries), key=rank)
