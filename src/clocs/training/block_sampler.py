"""Shuffling by blocks: a rank reads its own share of the shards, a few at a time, and any number of ranks agrees.

The shards of an epoch come in random order, as one long sequence of items. It is divided into lanes of equal length. A
lane mixes the items of a few consecutive shards, its window, and then goes on to the next ones. Every batch takes an
equal part of each lane, lane by lane, so that the share of a rank is made of whole lanes. All of it is a function of
seed, epoch and position: a run continues in the middle of an epoch without replaying it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.training.sampler import GROUP_SIZE, Ints, Permutation


class ShardUse(NamedTuple):
    """Steps of an epoch in which a shard is read."""

    first: int
    """First step."""
    end: int
    """Step after the last one."""
    shard: int
    """Index of the shard."""


@dataclass(frozen=True)
class _Plan:
    """Order of the shards of an epoch, and the windows of every lane."""

    order: Ints
    """Index of each shard, in the order of the epoch, (shards,)."""
    ends: Ints
    """End of each shard in the sequence of items, (shards,)."""
    windows: tuple[Ints, ...]
    """Borders of the windows of each lane in the sequence of items, (windows + 1,) each."""


class BlockSampler:
    """Sampler that reads the items of few shards at a time.

    Args:
        sizes: Number of items of each shard. Items are numbered from 0 in the order of the shards.
        batch_size: Instances of a global batch B, a multiple of the lanes.
        seed: Root seed.
        lanes: Number of lanes, which does not depend on the number of ranks.
        window: Number of shards that a lane mixes.

    Raises:
        ConfigError: The lanes do not divide the batch, or the items do not fill one.

    Example:
        >>> sampler = BlockSampler([100] * 12, batch_size=16, seed=0, lanes=4, window=2)
        >>> sampler.steps, sampler.batch(0, 3).shape
        (75, (16,))
        >>> len({use.shard for use in sampler.uses(0, range(1))})  # a quarter of the shards in one of four lanes
        3
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, *, lanes: int = 64, window: int = 4) -> None:
        total = sum(sizes)
        if batch_size % lanes:
            raise ConfigError(
                f"A batch of {batch_size} cannot be taken in equal parts from {lanes} lanes. Set shuffle_lanes to a "
                "divisor of batch_size."
            )
        if total < batch_size:
            raise ConfigError(f"{total} instances do not fill a batch of {batch_size}. Set batch_size={total} or less.")
        self.steps = total // batch_size
        self.lanes, self.window = lanes, window
        self._sizes = np.asarray(sizes, np.int64)
        self._first = np.cumsum(self._sizes) - self._sizes
        self._share, self._seed = batch_size // lanes, seed
        self._plan = functools.lru_cache(maxsize=2)(self._make_plan)
        self._batches = functools.lru_cache(maxsize=2)(self._compute)

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch, lane by lane."""
        group, index = divmod(step, GROUP_SIZE)
        items: Ints = self._batches(epoch, group)[index]
        return items

    def uses(self, epoch: int, lanes: range | None = None) -> list[ShardUse]:
        """Return when the shards of an epoch are read, in the order of their first use.

        Args:
            epoch: The epoch.
            lanes: The lanes of a rank; None for all.

        Returns:
            One entry a shard and lane. A shard at the border of two lanes has two.
        """
        plan, length = self._plan(epoch), self.steps * self._share
        found = []
        for lane in range(self.lanes) if lanes is None else lanes:
            borders = plan.windows[lane]
            for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
                steps = (begin - lane * length) // self._share, -(-(end - lane * length) // self._share)
                first, last = np.searchsorted(plan.ends, [begin, end - 1], "right")
                found += [ShardUse(*steps, shard) for shard in plan.order[first : last + 1].tolist()]
        return sorted(found)

    def _make_plan(self, epoch: int) -> _Plan:
        filled = np.flatnonzero(self._sizes)
        order = filled[Permutation(len(filled), derived_seed(self._seed, "shards", epoch))(np.arange(len(filled)))]
        ends, length = np.cumsum(self._sizes[order]), self.steps * self._share
        windows = []
        for lane in range(self.lanes):
            begin, end = lane * length, (lane + 1) * length
            inner = ends[(ends > begin) & (ends < end)]
            windows.append(np.array([begin, *inner[self.window - 1 :: self.window], end], np.int64))
        return _Plan(order, ends, tuple(windows))

    def _compute(self, epoch: int, group: int) -> Ints:
        """Return the items (batches, B) of a group. This takes little longer than a single batch."""
        steps = min(GROUP_SIZE, self.steps - group * GROUP_SIZE)
        positions = group * GROUP_SIZE * self._share + np.arange(steps * self._share)
        items = np.empty((steps, self.lanes, self._share), np.int64)
        for lane in range(self.lanes):
            items[:, lane] = self._lane_items(epoch, lane, positions).reshape(steps, -1)
        return items.reshape(steps, -1)

    def _lane_items(self, epoch: int, lane: int, positions: Ints) -> Ints:
        """Return the items at some positions of a lane, which ascend."""
        plan = self._plan(epoch)
        borders, sequence = plan.windows[lane], positions + lane * self.steps * self._share
        owner = np.searchsorted(borders, sequence, "right") - 1
        for window in np.unique(owner).tolist():
            at, begin = owner == window, int(borders[window])
            mixed = Permutation(
                int(borders[window + 1]) - begin, derived_seed(self._seed, "block", epoch, lane, window)
            )
            sequence[at] = begin + mixed(sequence[at] - begin)
        place = np.searchsorted(plan.ends, sequence, "right")
        shard = plan.order[place]
        return np.asarray(self._first[shard] + sequence - (plan.ends[place] - self._sizes[shard]))
