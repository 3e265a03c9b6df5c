"""From item numbers to samples: arithmetic over all blocks at once where shards are uniform."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.signals.resampling import Floats
from clocs.store.frame_index import Block, Ints, Recipe
from clocs.store.windows import LeadPlan, Windows

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader


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


def lead_plan(recipe: Recipe) -> LeadPlan:
    """Return how to make all leads of a frame: each stored lead is read once, whatever follows from it.

    Stored leads that are wanted only for others follow the recipe's own as further channels.
    """
    width = len(recipe.leads)
    direct = np.flatnonzero((recipe.first >= 0) & (recipe.second < 0))
    channel = dict(zip(recipe.first[direct].tolist(), direct.tolist(), strict=True))
    derived = np.flatnonzero(recipe.second >= 0)
    pair = sorted({*recipe.first[derived].tolist(), *recipe.second[derived].tolist()})
    for lead in pair:
        channel.setdefault(lead, width + len(channel) - len(direct))
    pair.sort(key=channel.__getitem__)
    weights = np.zeros((len(derived), len(pair)), np.float32)
    for row, at in enumerate(derived):
        weights[row, pair.index(recipe.first[at])] = recipe.first_weight[at]
        weights[row, pair.index(recipe.second[at])] = recipe.second_weight[at]
    channels = np.array(list(channel.values()), np.int64)
    breaks = [0, *(np.flatnonzero(np.diff(channels) != 1) + 1).tolist(), len(channels)]
    runs = ((slice(a, b), _span(channels[a:b])) for a, b in pairwise(breaks) if b > a)
    return LeadPlan(
        width=width,
        channels=width + len(channel) - len(direct),
        stored=np.array(list(channel), np.int64),
        runs=tuple(runs),
        pair=_span(np.array([channel[lead] for lead in pair], np.int64)),
        weights=weights,
        sums=_span(derived) if (np.diff(derived) == 1).all() else derived,
        missing=tuple(np.flatnonzero(recipe.first < 0).tolist()),
    )


def _span(channels: Ints) -> slice:
    """Return evenly spaced channels as a slice, so that they are views."""
    if not len(channels):
        return slice(0, 0)
    step = int(channels[1] - channels[0]) if len(channels) > 1 else 1
    return slice(int(channels[0]), int(channels[-1]) + 1, step)


@dataclass
class _Term:
    """One addend of every lead of every block, as (blocks, leads) tables."""

    lead: Ints
    """Place among the stored leads; -1: this lead needs no such addend."""
    weight: npt.NDArray[np.float32]
    offset: Ints
    """Uniform shards only: where the lead starts within a recording."""
    factor: npt.NDArray[np.float32]
    """Uniform shards only: weight over gain."""


class Gatherer:
    """Finds items of blocks and copies their samples, a whole batch in a few array operations."""

    def __init__(self, store: StoreReader, blocks: Sequence[Block]) -> None:
        self.store, self.blocks = store, blocks
        self.ends = np.cumsum([block.total for block in blocks], dtype=np.int64)
        self.shard = np.array([block.shard for block in blocks], np.int64)
        infos = [store.manifest.shards[block.shard] for block in blocks]
        self._before = np.concatenate([[0], self.ends[:-1]])
        self._wide = np.array([info.dtype == "int32" for info in infos], bool)
        self._any_wide = bool(self._wide.any())
        self._windows = {wide: Windows(len(store.manifest.shards), "int32" if wide else "int16") for wide in (0, 1)}
        self._uniform = all(
            block.per_row is not None and None not in (info.num_samples, info.gain, info.baseline, info.leads)
            for block, info in zip(blocks, infos, strict=True)
        )
        self._samples = np.array([info.num_samples or 0 for info in infos], np.int64)
        self._stride = self._samples * np.array([len(info.leads or ()) for info in infos], np.int64)
        self._gain = np.array([info.gain or 1.0 for info in infos], np.float64)
        self._zero = np.array([info.baseline or 0 for info in infos], np.int64)
        self._per_row = np.array([block.per_row or 0 for block in blocks], np.int64)
        self._width = np.array([block.leads_per_frame for block in blocks], np.int64)
        self._first = self._term([(block.recipe.first, block.recipe.first_weight) for block in blocks])
        self._second = self._term([(block.recipe.second, block.recipe.second_weight) for block in blocks])
        self._any_masked = any(block.lead_mask is not None for block in blocks)
        self._mixes = bool((self._second.lead >= 0).any())
        self._number_rows()
        _ = store.checked  # made before workers fork, so that they share it
        self._file_begin = np.zeros(len(store.manifest.shards), np.int64)
        """At which byte of its file each opened shard's samples begin."""
        self._all_checked = False
        """Whether every chunk that an item needs was compared with its checksum: nothing is looked up then."""
        self._until_review = self._review_after = max(1, len(self) // 4)

    def _term(self, addends: list[tuple[Ints, npt.NDArray[np.float32]]]) -> _Term:
        shape = (len(addends), max((len(lead) for lead, _ in addends), default=0))
        lead, weight = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
        for number, (leads, weights) in enumerate(addends):
            lead[number, : len(leads)], weight[number, : len(leads)] = leads, weights
        factor = (weight / self._gain[:, None]).astype(np.float32)
        return _Term(lead, weight, lead * self._samples[:, None], factor)

    def _number_rows(self) -> None:
        """Rows of all blocks end to end, where a mask leaves some out."""
        chosen = [block.rows for block in self.blocks]
        self._rows: Ints | None = None
        if self._uniform and any(rows is not None for rows in chosen):
            counts = [self.store.manifest.shards[block.shard].records for block in self.blocks]
            lists = [np.arange(count) if rows is None else rows for rows, count in zip(chosen, counts, strict=True)]
            self._rows = np.concatenate(lists)
            self._rows_before = np.cumsum([0, *(len(rows) for rows in lists[:-1])])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def checked_items(self, items: npt.ArrayLike) -> Ints:
        """Return the numbers of items, (items,); one that is not there is refused."""
        given = np.asarray(items)
        if given.size and given.dtype.kind not in "iu":  # a mask would be taken for the items 0 and 1
            raise ConfigError(f"items are whole numbers, not {given.dtype}; of a mask, np.flatnonzero gives them")
        wanted = given.astype(np.int64).reshape(-1)
        if (wanted.view(np.uint64) >= len(self)).any():  # a negative number is a huge one there
            raise IndexError(f"items {wanted.min()}..{wanted.max()} are not all in 0..{len(self) - 1}")
        return wanted

    def places(self, items: npt.ArrayLike) -> Places:
        """Where items lie."""
        wanted = self.checked_items(items)
        block = self.ends.searchsorted(wanted, "right")
        local = wanted - self._before[block]
        if self._uniform:
            row, rest = np.divmod(local, self._per_row[block])
            frame, lead = np.divmod(rest, self._width[block])
            return Places(block, row if self._rows is None else self._rows[self._rows_before[block] + row], frame, lead)
        row, frame, lead = np.empty_like(local), np.empty_like(local), np.empty_like(local)
        for number, at in groups(block):
            row[at], frame[at], lead[at] = self.blocks[number].locate(local[at])
        return Places(block, row, frame, lead)

    def lead_mask(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(items, leads): which leads of the recipe each frame has, where an item holds all of them."""
        places = self.places(items)
        local = self.checked_items(items) - self._before[places.block]
        out = self._first.lead[places.block] >= 0
        for number, at in groups(places.block) if self._any_masked else ():
            mask = self.blocks[number].lead_mask
            if mask is not None:
                out[at] = mask[local[at]]
        return out

    def windows(self, places: Places, starts: Ints, window: int) -> Floats:
        """(items, window) from each recording's start on, in physical units, derived leads computed."""
        out = self._scaled(places, starts, self._first, window)
        if self._mixes:
            mixed = np.flatnonzero(self._second.lead[places.block, places.lead] >= 0)
            out[mixed] += self._scaled(places.pick(mixed), starts[mixed], self._second, window)
        return out

    @functools.cached_property
    def _plans(self) -> tuple[list[LeadPlan], Ints]:
        """How to make the leads of a frame, and which of these ways each block takes."""
        recipes = [block.recipe for block in self.blocks]
        keys = [(recipe.leads, recipe.first.tobytes(), recipe.second.tobytes()) for recipe in recipes]
        by_key = dict(zip(keys, recipes, strict=True))
        number = {key: at for at, key in enumerate(by_key)}
        return [lead_plan(recipe) for recipe in by_key.values()], np.array([number[key] for key in keys], np.int64)

    def stacked(self, places: Places, starts: Ints, window: int) -> Floats:
        """(items, leads, window) from each recording's start on, in physical units, with all leads of the recipe.

        There is at least one item.
        """
        plans, plan = self._plans
        kinds = 2 * plan[places.block] + self._wide[places.block]
        if (kinds == kinds[0]).all():
            return self._stack(places, starts, window, int(kinds[0]))
        out = np.empty((len(starts), plans[0].width, window), np.float32)
        for kind, at in groups(kinds):
            out[at] = self._stack(places.pick(at), starts[at], window, kind)
        return out

    def _stack(self, places: Places, starts: Ints, window: int, kind: int) -> Floats:
        """Frames of items that share a plan and the type of their samples."""
        plan, block = self._plans[0][kind // 2], places.block
        shape = (len(starts), len(plan.stored))
        if self._uniform:
            begin = (places.row * self._stride[block] + starts)[:, None] + plan.stored * self._samples[block, None]
            zero = np.broadcast_to(self._zero[block, None], shape)
            factor = np.broadcast_to((1 / self._gain[block, None]).astype(np.float32), shape)
        else:
            each = places.pick(np.repeat(np.arange(shape[0]), shape[1]))
            at, zeros, gain = self._look_up(each, np.tile(plan.stored, shape[0]))
            begin, zero = at.reshape(shape) + starts[:, None], zeros.reshape(shape)
            factor = (1 / gain.reshape(shape)).astype(np.float32)
        shard = self.shard[block]
        known = self._ready(bool(kind % 2), np.repeat(shard, shape[1]), begin.reshape(-1), window)
        return known.take_leads(shard, begin, window, zero, factor, plan)[:, : plan.width]

    def _scaled(self, places: Places, starts: Ints, term: _Term, window: int) -> Floats:
        """Windows of stored leads, times their weight in a term."""
        block, at = places.block, (places.block, places.lead)
        if self._uniform:
            begin = places.row * self._stride[block] + term.offset[at] + starts
            zero, factor = self._zero[block], term.factor[at]
        else:
            begin, zero, gain = self._look_up(places, term.lead[at])
            begin, factor = begin + starts, (term.weight[at] / gain).astype(np.float32)
        shard = self.shard[block]
        if not self._any_wide:
            return self._taken(False, shard, begin, window, zero, factor)
        out = np.empty((len(starts), window), np.float32)
        for wide in (False, True):
            some = np.flatnonzero(self._wide[block] == wide)
            out[some] = self._taken(wide, shard[some], begin[some], window, zero[some], factor[some])
        return out

    def _taken(
        self, wide: bool, shard: Ints, begin: Ints, window: int, zero: Ints, factor: npt.NDArray[np.float32]
    ) -> Floats:
        return self._ready(wide, shard, begin, window).take(shard, begin, window, zero, factor)

    def _ready(self, wide: bool, shard: Ints, begin: Ints, window: int) -> Windows:
        """Return the buffers of these windows, opened and compared with their checksums."""
        known = self._windows[wide]
        held = known.holds(shard)
        for number in () if held.all() else np.unique(shard[~held]).tolist():
            values, self._file_begin[number] = self.store.shard(number).unchecked_values
            known.add(number, values)
        if not self._all_checked:
            self._check(shard, begin, window, known.itemsize)
        return known

    def _check(self, shard: Ints, begin: Ints, window: int, itemsize: int) -> None:
        """Check the chunks of a batch; after every quarter of an epoch, find out whether any is left."""
        self.store.check_samples(shard, self._file_begin[shard] + begin * itemsize, window * itemsize)
        self._until_review -= len(shard)
        if self._until_review <= 0:
            self._all_checked = all(map(self._is_checked, self.blocks))
            self._until_review = self._review_after

    def _is_checked(self, block: Block) -> bool:
        """Return whether all samples that a block's items may need were checked."""
        file_begin = int(self._file_begin[block.shard])
        if not file_begin:
            return False  # not opened yet
        shard, info = self.store.shard(block.shard), self.store.manifest.shards[block.shard]
        rows = np.unique(block.listed[0]) if block.listed is not None else block.rows
        if rows is None:
            rows = np.arange(info.records)
        leads = np.union1d(block.recipe.first, block.recipe.second).astype(np.int64)
        leads = leads[leads >= 0]
        num_samples = shard.num_samples[rows, None]
        begin = shard.offsets[rows, None] + leads * num_samples
        size = np.dtype(info.dtype).itemsize
        return self.store.checked.covers(
            block.shard, file_begin + begin * size, file_begin + (begin + num_samples) * size
        )

    def _look_up(self, places: Places, leads: Ints) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
        """Where each item's lead starts in its shard, and the lead's zero and gain."""
        begin, zero = np.empty_like(leads), np.empty_like(leads)
        gain = np.empty(len(leads), np.float64)
        for number, at in groups(places.block):
            shard, rows = self.store.shard(self.blocks[number].shard), places.row[at]
            gains, first = shard.lead_values("gain")
            zeros, _ = shard.lead_values("baseline")
            begin[at] = shard.offsets[rows] + leads[at] * shard.num_samples[rows]
            gain[at], zero[at] = gains[first[rows] + leads[at]], zeros[first[rows] + leads[at]]
        return begin, zero, gain
