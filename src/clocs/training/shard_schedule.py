"""Shards of a bucket that a rank reads: fetched before they are needed, and given up when they leave their window.

With ``shuffle=blocks``, the order of the shards is known. So each rank says when it needs which shard next, and the
cache of the machine keeps those that are needed soon. An epoch is a sequence of positions: the training steps, and then
the batches of the validation.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ClocsError, ConfigError
from clocs.core.storage.object_cache import LIMIT, ShardCopy, shard_cache
from clocs.store.reader import StoreReader
from clocs.store.shard import SHARDS
from clocs.training.block_sampler import BlockSampler, ShardUse

DOWNLOADS: Final = 3
"""Number of shards that a rank fetches ahead at a time."""
MAX_PLANNED: Final = 4096
"""Number of next uses that a rank publishes."""
Ints = npt.NDArray[np.int64]


class _Timeline(NamedTuple):
    """Uses of shards within an epoch, in the order of their first positions. All arrays are (uses,)."""

    first: Ints
    """First position."""
    end: Ints
    """Position after the last one."""
    shard: Ints
    """Index of the shard over all stores."""


class ShardSchedule:
    """Fetches and releases the shards of a rank as training goes on.

    Args:
        stores: Stores of the run, in the order of the samplers' shards. Those on a disk are left alone.
        train: Order of the training items.
        validation: Order of the validation items; None if they are read at random.
        lanes: Lanes of this rank.
        num_ranks: Number of ranks on this machine, which share its cache.

    Raises:
        ConfigError: The shards that are read at the same time do not fit into the cache.
    """

    def __init__(
        self,
        stores: Sequence[StoreReader],
        train: BlockSampler,
        validation: BlockSampler | None,
        lanes: range,
        num_ranks: int,
    ) -> None:
        self._stores, self._train, self._validation, self._lanes = stores, train, validation, lanes
        self._first = np.cumsum([0, *(len(store.shards) for store in stores)])
        self._num_positions = train.steps + (0 if validation is None else validation.steps)
        self._timeline = functools.lru_cache(maxsize=3)(self._make_timeline)
        self._copy = functools.cache(self._find_copy)
        self._refuse_small_cache(num_ranks)
        self._active: frozenset[int] | None = None
        self._ahead: list[tuple[float, int]] = []
        """Next use and shard of what is to be fetched, the last one first."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._fetch_all, daemon=True) for _ in range(DOWNLOADS)]
        for thread in self._threads:
            thread.start()

    def advance(self, epoch: int, position: int) -> None:
        """Say which batch is made next. Shards of earlier windows are closed, and later ones are fetched.

        Args:
            epoch: The epoch.
            position: Step of the epoch, or the number of its steps plus the number of a validation batch.
        """
        timeline = self._timeline(epoch)
        active = frozenset(timeline.shard[(timeline.first <= position) & (position < timeline.end)].tolist())
        if active == self._active:
            return
        for shard in (self._active or frozenset()) - active:
            store, number = self._locate(shard)
            store.open_shards.close(number)
        self._active = active
        uses = self._next_uses(epoch, position)
        nearest = sorted((use, shard) for shard, use in uses.items())[:MAX_PLANNED]
        shard_cache().plan({self._copy(shard)[0]: use for use, shard in nearest})
        sizes = np.cumsum([self._copy(shard)[1].num_bytes for _, shard in nearest])
        with self._changed:
            self._ahead = nearest[: int(np.searchsorted(sizes, shard_cache().limit))][::-1]
            self._changed.notify_all()

    def close(self) -> None:
        """End the downloads and close the shards."""
        with self._changed:
            self._is_closed, self._ahead = True, []
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for shard in self._active or ():
            store, number = self._locate(shard)
            store.open_shards.close(number)
        shard_cache().plan({})

    def _fetch_all(self) -> None:
        """Fetch what is needed next, and wait for a change when the cache is full."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ahead or self._is_closed)
                if self._is_closed:
                    return
                use, shard = self._ahead.pop()
            name, copy = self._copy(shard)
            try:
                has_space = shard_cache().fetch_ahead(name, copy.num_bytes, use, copy.fetch)
            except (ClocsError, OSError):  # the step that needs the shard tries again and raises
                has_space = False
            if not has_space:
                with self._changed:
                    self._ahead = []

    def _next_uses(self, epoch: int, position: int) -> dict[int, float]:
        """Return the next position of each shard in a bucket, counted over epochs, until the end of the next epoch."""
        uses: dict[int, float] = {}
        for later in (epoch + 1, epoch):
            timeline = self._timeline(later)
            now = position if later == epoch else 0
            for number in np.flatnonzero(timeline.end > now)[::-1].tolist():  # the earliest use is set last
                begin = max(int(timeline.first[number]), now)
                uses[int(timeline.shard[number])] = later * self._num_positions + begin
        return uses

    def _make_timeline(self, epoch: int) -> _Timeline:
        uses = self._train.uses(epoch, self._lanes)
        if self._validation is not None:
            steps = self._train.steps
            of_validation = self._validation.uses(0, self._lanes)
            uses = uses + [ShardUse(use.first + steps, use.end + steps, use.shard) for use in of_validation]
        uses = [use for use in uses if self._locate(use.shard)[0].open_shards.is_bounded]
        return _Timeline(*np.array(uses, np.int64).reshape(-1, 3).T)

    def _locate(self, shard: int) -> tuple[StoreReader, int]:
        """Return the store of a shard, and its index there."""
        number = int(np.searchsorted(self._first, shard, "right")) - 1
        return self._stores[number], shard - int(self._first[number])

    def _find_copy(self, shard: int) -> tuple[str, ShardCopy]:
        """Return the copy of a shard, with its name."""
        store, number = self._locate(shard)
        info = store.shards[number]
        copy = ShardCopy(store.folder / SHARDS / info.file, info.sha256, info.bytes)  # type: ignore[arg-type]
        return copy.name, copy

    def _refuse_small_cache(self, num_ranks: int) -> None:
        """Refuse windows that need more than a rank's share of the cache."""
        timeline, limit = self._timeline(0), shard_cache().limit
        if not len(timeline.first):
            return
        sizes = np.array([self._copy(shard)[1].num_bytes for shard in timeline.shard.tolist()])
        middles = (timeline.first + timeline.end) // 2
        needed = max(int(sizes[(timeline.first <= at) & (at < timeline.end)].sum()) for at in np.unique(middles)[:64])
        if needed * num_ranks > limit:
            raise ConfigError(
                f"The windows of {num_ranks} rank(s) need {needed * num_ranks:,} bytes at a time, but the cache of "
                f"this machine is limited to {limit:,} bytes. Raise {LIMIT}, or set a lower shuffle_lanes or "
                "shuffle_window."
            )
