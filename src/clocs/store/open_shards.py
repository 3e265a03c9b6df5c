"""Open shards of a store: few at a time if their copies are in the bounded cache of this machine."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from clocs.core.errors import CacheFullError
from clocs.core.storage.object_cache import shard_cache
from clocs.store.arrow_files import CheckedArrow
from clocs.store.shard import Shard

MAX_OPEN: Final = 1024
"""Maximum number of open shards of a store on a disk."""
WAIT_SECONDS: Final = 60.0
"""Time to wait until other processes let go of files in a full cache."""
Ints = npt.NDArray[np.int64]


class ShardUser(Protocol):
    """Object that keeps views into shards."""

    def forget(self, number: int) -> None:
        """Drop the views into a shard."""


class OpenShards:
    """Shards of a store that are open, of which the least recently used are closed.

    Copies of shards from a bucket are held while they are mapped. A process maps no more of them than its share of the
    cache, so that others have space. Methods can be called by several threads.

    Args:
        make_shard: Returns a shard by its index.
        is_bounded: True if the copies of the shards are in the bounded cache.
    """

    def __init__(self, make_shard: Callable[[int], Shard], is_bounded: bool) -> None:
        self.is_bounded, self._make_shard = is_bounded, make_shard
        self._get_unbounded = functools.lru_cache(maxsize=MAX_OPEN)(make_shard)  # has no lock that a fork could copy
        self._shards: OrderedDict[int, Shard] = OrderedDict()
        self._needed: set[int] = set()
        """Shards that are being read and stay open."""
        self._users: weakref.WeakSet[ShardUser] = weakref.WeakSet()
        self._lock = threading.RLock()

    def add_user(self, user: ShardUser) -> None:
        """Add an object that drops its views when a shard is closed."""
        self._users.add(user)

    def get(self, number: int) -> Shard:
        """Return a shard. Its file is opened when it is used."""
        if not self.is_bounded:
            return self._get_unbounded(number)
        with self._lock:
            shard = self._shards.get(number)
            if shard is None:
                shard = self._shards[number] = self._make_shard(number)
            self._shards.move_to_end(number)
            return shard

    def close(self, number: int) -> None:
        """Close a shard. Its copy is released once nothing else uses its memory."""
        with self._lock:
            self._get_unbounded.cache_clear()
            self._shards.pop(number, None)
            for user in self._users:
                user.forget(number)

    def open_file(self, open_file: Callable[[], CheckedArrow], num_bytes: int) -> CheckedArrow:
        """Open the file of a shard, and close others if the cache has no space for its copy.

        Raises:
            CacheFullError: The files that are needed at the same time, or other processes, leave no space for it.
        """
        if not self.is_bounded:
            return open_file()
        with self._lock:
            while not (has_share := shard_cache().has_share_for(num_bytes)) and self._close_oldest():
                pass
            if self._needed and not has_share:
                raise CacheFullError("The shards of a batch do not fit into the cache at the same time.")
            deadline = time.monotonic() + WAIT_SECONDS
            while True:
                try:
                    return open_file()
                except CacheFullError:
                    if not self._close_oldest():
                        if self._needed or time.monotonic() > deadline:
                            raise
                        time.sleep(0.1)

    def _close_oldest(self) -> bool:
        """Close the shard that was not used for the longest time. Return False if none can be closed."""
        for number, shard in self._shards.items():
            if shard.is_open and number not in self._needed:
                self.close(number)
                return True
        return False

    def in_parts(self, numbers: Ints, read: Callable[[int], None]) -> Iterator[Ints]:
        """Open shards, as many at a time as the cache has space for.

        Args:
            numbers: Index of the shard of each item, (N,).
            read: Called with the index of each shard to open its file.

        Yields:
            Positions of the items whose shards are open until the next iteration, (M,).
        """
        with self._lock:
            waiting = sorted(np.unique(numbers).tolist(), key=lambda number: not self.get(number).is_open)
            try:
                while waiting:
                    self._needed.clear()
                    for number in waiting:
                        try:
                            read(number)
                        except CacheFullError:
                            if not self._needed:
                                raise
                            break
                        self._needed.add(number)
                    yield np.flatnonzero(np.isin(numbers, list(self._needed)))
                    waiting = [number for number in waiting if number not in self._needed]
            finally:
                self._needed.clear()
