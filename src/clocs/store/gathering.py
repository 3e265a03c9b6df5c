"""From item numbers to samples: arithmetic over all blocks at once where shards are uniform."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clocs.signals.resampling import Floats
from clocs.store.frame_index import Block, Ints
from clocs.store.windows import Windows

if TYPE_CHECKING:
    from clocs.store.store import Store


@dataclass(frozen=True)
class Places:
    """Where items lie. All arrays are (items,)."""

    block: Ints
    row: Ints
    """Within the block's shard."""
    frame: Ints
    lead: Ints
    """Within the block's recipe."""

    def pick(self, at: Ints) -> Places:
        """Some of them."""
        return Places(self.block[at], self.row[at], self.frame[at], self.lead[at])


def groups(block: Ints) -> Iterator[tuple[int, Ints]]:
    """Each block among items, and where its items are."""
    order = np.argsort(block, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(block[order])) + 1) if len(order) else ():
        yield int(block[at[0]]), at


class Gatherer:
    """Finds items of blocks and copies their samples, a whole batch in a few array operations."""

    def __init__(self, store: Store, blocks: Sequence[Block]) -> None:
        self.store, self.blocks = store, blocks
        self.ends = np.cumsum([block.total for block in blocks], dtype=np.int64)
        self.shard = np.array([block.shard for block in blocks], np.int64)
        infos = [store.manifest.shards[block.shard] for block in blocks]
        self._before = np.concatenate([[0], self.ends[:-1]])
        self._recipe()
        self._wide = np.array([info.dtype == "int32" for info in infos], bool)
        self._windows = {wide: Windows(len(store.manifest.shards), "int32" if wide else "int16") for wide in (0, 1)}
        self._uniform = all(
            block.per_row is not None and None not in (info.samples, info.gain, info.baseline, info.leads)
            for block, info in zip(blocks, infos, strict=True)
        )
        if self._uniform:
            self._samples = np.array([info.samples for info in infos], np.int64)
            self._stride = self._samples * np.array([len(info.leads or ()) for info in infos], np.int64)
            self._gain = np.array([info.gain for info in infos], np.float64)
            self._zero = np.array([info.baseline for info in infos], np.int64)
            self._per_row = np.array([block.per_row for block in blocks], np.int64)
            self._width = np.array([block.leads_per_frame for block in blocks], np.int64)
            self._number_rows()

    def _recipe(self) -> None:
        """The blocks' recipes as (blocks, leads) tables."""
        shape = (len(self.blocks), max((len(block.recipe.leads) for block in self.blocks), default=0))
        self._first, self._second = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
        self._first_weight, self._second_weight = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        for number, block in enumerate(self.blocks):
            width = len(block.recipe.leads)
            self._first[number, :width], self._second[number, :width] = block.recipe.first, block.recipe.second
            self._first_weight[number, :width] = block.recipe.first_weight
            self._second_weight[number, :width] = block.recipe.second_weight
        self._mixes = bool((self._second >= 0).any())

    def _number_rows(self) -> None:
        """Rows of all blocks end to end, where a mask leaves some out."""
        chosen = [block.rows for block in self.blocks]
        self._rows: Ints | None = None
        if any(rows is not None for rows in chosen):
            counts = [self.store.manifest.shards[block.shard].records for block in self.blocks]
            lists = [np.arange(count) if rows is None else rows for rows, count in zip(chosen, counts, strict=True)]
            self._rows = np.concatenate(lists)
            self._rows_before = np.cumsum([0, *(len(rows) for rows in lists[:-1])])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def places(self, items: npt.ArrayLike) -> Places:
        """Where items lie; one that is not there is refused."""
        wanted = np.atleast_1d(np.asarray(items, np.int64))
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"items {wanted.min()}..{wanted.max()} are not all in 0..{len(self) - 1}")
        block = np.searchsorted(self.ends, wanted, "right")
        local = wanted - self._before[block]
        if self._uniform:
            row, rest = np.divmod(local, self._per_row[block])
            frame, lead = np.divmod(rest, self._width[block])
            return Places(block, row if self._rows is None else self._rows[self._rows_before[block] + row], frame, lead)
        row, frame, lead = np.empty_like(local), np.empty_like(local), np.empty_like(local)
        for number, at in groups(block):
            row[at], frame[at], lead[at] = self.blocks[number].locate(local[at])
        return Places(block, row, frame, lead)

    def windows(self, places: Places, starts: Ints, window: int) -> Floats:
        """(items, window) from each recording's start on, in physical units, derived leads computed."""
        at = (places.block, places.lead)
        out = self._scaled(places, starts, self._first[at], self._first_weight[at], window)
        mixed = np.flatnonzero(self._second[at] >= 0) if self._mixes else ()
        if len(mixed):
            some = places.pick(np.asarray(mixed))
            at = (some.block, some.lead)
            out[mixed] += self._scaled(some, starts[mixed], self._second[at], self._second_weight[at], window)
        return out

    def _scaled(
        self, places: Places, starts: Ints, leads: Ints, weight: npt.NDArray[np.float32], window: int
    ) -> Floats:
        """Windows of stored leads, times a weight."""
        shard = self.shard[places.block]
        begin, samples, gain, zero = self._layout(places, leads)
        begin = begin + leads * samples + starts
        factor = (weight / gain).astype(np.float32)[:, None]
        if not self._wide.any():
            return self._taken(False, shard, begin, window, zero, factor)
        out = np.empty((len(starts), window), np.float32)
        for wide in (False, True):
            at = np.flatnonzero(self._wide[places.block] == wide)
            out[at] = self._taken(wide, shard[at], begin[at], window, zero[at], factor[at])
        return out

    def _taken(
        self, wide: bool, shard: Ints, begin: Ints, window: int, zero: Ints, factor: npt.NDArray[np.float32]
    ) -> Floats:
        known = self._windows[wide]
        held = known.holds(shard)
        for number in () if held.all() else np.unique(shard[~held]).tolist():
            known.add(number, self.store.shard(number).values)
        raw = known.take(shard, begin, window)
        steps = raw - zero[:, None] if zero.any() else raw
        if (factor == factor[:1]).all():  # one number is twice as quick as one a row
            return np.multiply(steps, factor[0, 0] if len(factor) else 1, dtype=np.float32, casting="unsafe")
        scaled = steps.astype(np.float32)
        scaled *= factor
        return scaled

    def _layout(self, places: Places, leads: Ints) -> tuple[Ints, Ints, npt.NDArray[np.float64], Ints]:
        """Where each item's recording starts in its shard, its samples, and its lead's gain and zero."""
        block = places.block
        if self._uniform:
            return places.row * self._stride[block], self._samples[block], self._gain[block], self._zero[block]
        begin, samples, zero = (np.empty_like(leads) for _ in range(3))
        gain = np.empty(len(leads), np.float64)
        for number, at in groups(block):
            shard, rows = self.store.shard(self.blocks[number].shard), places.row[at]
            gains, first = shard.lead_values("gain")
            zeros, _ = shard.lead_values("baseline")
            begin[at], samples[at] = shard.offsets[rows], shard.samples[rows]
            gain[at], zero[at] = gains[first[rows] + leads[at]], zeros[first[rows] + leads[at]]
        return begin, samples, gain, zero
