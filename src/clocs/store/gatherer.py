"""Gathering of samples by item index, in a few array operations per batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.signals.resampling import Floats
from clocs.store.frame_index import FrameGroup, Ints
from clocs.store.lead_derivation import lead_plan
from clocs.store.windows import LeadPlan, Windows

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader


@dataclass(frozen=True)
class ItemPositions:
    """Positions of items in a store. All arrays are (items,)."""

    group: Ints
    """Index of the frame group."""
    row: Ints
    """Row in the group's shard."""
    frame: Ints
    """Index of the frame in its recording."""
    lead: Ints
    """Index of the lead in the group's derivation."""

    def take(self, at: Ints) -> ItemPositions:
        """Return a selection of the positions."""
        return ItemPositions(self.group[at], self.row[at], self.frame[at], self.lead[at])


def group_positions(group: Ints) -> Iterator[tuple[int, Ints]]:
    """Iterate over the distinct values of an array, with the indices of each."""
    order = np.argsort(group, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
        yield int(group[at[0]]), at


@dataclass
class _LeadTerm:
    """One term of the weighted sum of every lead of every group. All arrays are (groups, leads)."""

    lead: Ints
    """Index of the stored lead; -1 without this term."""
    weight: npt.NDArray[np.float32]
    """Weight of the stored lead."""
    offset: Ints
    """First sample of the lead within a recording, for uniform shards."""
    factor: npt.NDArray[np.float32]
    """Weight divided by gain, for uniform shards."""


class Gatherer:
    """Find items and copy their samples, a batch at a time.

    Args:
        store: The store.
        groups: Frame groups. Their items are indexed one group after the other.
    """

    def __init__(self, store: StoreReader, groups: Sequence[FrameGroup]) -> None:
        self.store, self.groups = store, groups
        self.ends = np.cumsum([group.num_items for group in groups], dtype=np.int64)
        self.shard = np.array([group.shard for group in groups], np.int64)
        infos = [store.shards[group.shard] for group in groups]
        self._before = np.concatenate([[0], self.ends[:-1]])
        self._wide = np.array([info.dtype == "int32" for info in infos], bool)
        self._any_wide = bool(self._wide.any())
        self._windows = {wide: Windows(len(store.shards), "int32" if wide else "int16") for wide in (0, 1)}
        self._uniform = all(
            group.items_per_row is not None and None not in (info.num_samples, info.gain, info.baseline, info.leads)
            for group, info in zip(groups, infos, strict=True)
        )
        self._samples = np.array([info.num_samples or 0 for info in infos], np.int64)
        self._stride = self._samples * np.array([len(info.leads or ()) for info in infos], np.int64)
        self._gain = np.array([info.gain or 1.0 for info in infos], np.float64)
        self._baseline = np.array([info.baseline or 0 for info in infos], np.int64)
        self._per_row = np.array([group.items_per_row or 0 for group in groups], np.int64)
        self._width = np.array([group.leads_per_frame for group in groups], np.int64)
        self._first = self._lead_term([(group.derivation.first, group.derivation.first_weight) for group in groups])
        self._second = self._lead_term([(group.derivation.second, group.derivation.second_weight) for group in groups])
        self._any_masked = any(group.lead_mask is not None for group in groups)
        self._any_derived = bool((self._second.lead >= 0).any())
        self._concatenate_rows()
        store.open_shards.add_user(self)
        _ = store.checked  # created before workers fork, so that they share it
        self._file_begin = np.zeros(len(store.shards), np.int64)
        """Byte of the file at which the samples of each open shard begin."""
        self._all_checked = False
        """True when every chunk of every item was compared with its checksum."""
        self._items_until_review = self._items_per_review = max(1, len(self) // 4)

    def _lead_term(self, addends: list[tuple[Ints, npt.NDArray[np.float32]]]) -> _LeadTerm:
        shape = (len(addends), max((len(lead) for lead, _ in addends), default=0))
        lead, weight = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
        for number, (leads, weights) in enumerate(addends):
            lead[number, : len(leads)], weight[number, : len(leads)] = leads, weights
        factor = (weight / self._gain[:, None]).astype(np.float32)
        return _LeadTerm(lead, weight, lead * self._samples[:, None], factor)

    def _concatenate_rows(self) -> None:
        """Concatenate the rows of all groups if a mask leaves some out."""
        selected = [group.rows for group in self.groups]
        self._rows: Ints | None = None
        if self._uniform and any(rows is not None for rows in selected):
            counts = [self.store.shards[group.shard].records for group in self.groups]
            lists = [np.arange(count) if rows is None else rows for rows, count in zip(selected, counts, strict=True)]
            self._rows = np.concatenate(lists)
            self._rows_before = np.cumsum([0, *(len(rows) for rows in lists[:-1])])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def validate_items(self, items: npt.ArrayLike) -> Ints:
        """Return item indices as an array, (N,).

        Raises:
            ConfigError: The indices are not integers.
            IndexError: An index is out of range.
        """
        values = np.asarray(items)
        if values.size and values.dtype.kind not in "iu":  # a mask would select the items 0 and 1
            raise ConfigError(f"Expected item indices as integers, got {values.dtype}. For a mask use np.flatnonzero.")
        indices = values.astype(np.int64).reshape(-1)
        if (indices.view(np.uint64) >= len(self)).any():  # negative indices become large
            raise IndexError(f"items {indices.min()}..{indices.max()} are not all in 0..{len(self) - 1}")
        return indices

    def positions(self, items: npt.ArrayLike) -> ItemPositions:
        """Return the positions of items."""
        indices = self.validate_items(items)
        group = self.ends.searchsorted(indices, "right")
        local = indices - self._before[group]
        if self._uniform:
            row, rest = np.divmod(local, self._per_row[group])
            frame, lead = np.divmod(rest, self._width[group])
            return ItemPositions(
                group, row if self._rows is None else self._rows[self._rows_before[group] + row], frame, lead
            )
        row, frame, lead = np.empty_like(local), np.empty_like(local), np.empty_like(local)
        for number, at in group_positions(group):
            row[at], frame[at], lead[at] = self.groups[number].locate(local[at])
        return ItemPositions(group, row, frame, lead)

    def lead_mask(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return which leads each frame has, (N, leads) bool, for items of all leads."""
        positions = self.positions(items)
        local = self.validate_items(items) - self._before[positions.group]
        out = self._first.lead[positions.group] >= 0
        for number, at in group_positions(positions.group) if self._any_masked else ():
            mask = self.groups[number].lead_mask
            if mask is not None:
                out[at] = mask[local[at]]
        return out

    def windows(self, positions: ItemPositions, starts: Ints, window: int) -> Floats:
        """Return windows of single leads from ``starts``, in physical units, (N, window)."""
        out = self._scaled(positions, starts, self._first, window)
        if self._any_derived:
            derived = np.flatnonzero(self._second.lead[positions.group, positions.lead] >= 0)
            out[derived] += self._scaled(positions.take(derived), starts[derived], self._second, window)
        return out

    @functools.cached_property
    def _plans(self) -> tuple[list[LeadPlan], Ints]:
        """Distinct plans of all leads, and the index of the plan of each group."""
        derivations = [group.derivation for group in self.groups]
        keys = [
            (derivation.leads, derivation.first.tobytes(), derivation.second.tobytes()) for derivation in derivations
        ]
        by_key = dict(zip(keys, derivations, strict=True))
        number = {key: at for at, key in enumerate(by_key)}
        return [lead_plan(derivation) for derivation in by_key.values()], np.array(
            [number[key] for key in keys], np.int64
        )

    def all_lead_windows(self, positions: ItemPositions, starts: Ints, window: int) -> Floats:
        """Return windows of all leads from ``starts``, in physical units, (N, leads, window), N > 0."""
        plans, plan = self._plans
        kinds = 2 * plan[positions.group] + self._wide[positions.group]
        if (kinds == kinds[0]).all():
            return self._all_leads_of_kind(positions, starts, window, int(kinds[0]))
        out = np.empty((len(starts), plans[0].width, window), np.float32)
        for kind, at in group_positions(kinds):
            out[at] = self._all_leads_of_kind(positions.take(at), starts[at], window, kind)
        return out

    def _all_leads_of_kind(self, positions: ItemPositions, starts: Ints, window: int, kind: int) -> Floats:
        """Return windows of items with the same plan and sample type, (N, leads, window)."""
        plan, group = self._plans[0][kind // 2], positions.group
        shape = (len(starts), len(plan.stored))
        factor: npt.NDArray[np.float32]
        if self._uniform:
            begin = (positions.row * self._stride[group] + starts)[:, None] + plan.stored * self._samples[group, None]
            baseline = np.broadcast_to(self._baseline[group, None], shape)
            factor = np.broadcast_to((1 / self._gain[group, None]).astype(np.float32), shape)
        else:
            repeated = positions.take(np.repeat(np.arange(shape[0]), shape[1]))
            at, baselines, gain = self._lead_calibration(repeated, np.tile(plan.stored, shape[0]))
            begin, baseline = at.reshape(shape) + starts[:, None], baselines.reshape(shape)
            factor = (1 / gain.reshape(shape)).astype(np.float32)
        shard = self.shard[group]

        def read(at: Ints | slice) -> Floats:
            flat = np.repeat(shard[at], shape[1])
            windows = self._prepared_windows(bool(kind % 2), flat, begin[at].reshape(-1), window)
            return windows.take_leads(shard[at], begin[at], window, baseline[at], factor[at], plan)[:, : plan.width]

        return self._in_parts(bool(kind % 2), shard, read)

    def _scaled(self, positions: ItemPositions, starts: Ints, term: _LeadTerm, window: int) -> Floats:
        """Return windows of stored leads, multiplied by their weights in a term, (N, window)."""
        group, at = positions.group, (positions.group, positions.lead)
        if self._uniform:
            begin = positions.row * self._stride[group] + term.offset[at] + starts
            baseline, factor = self._baseline[group], term.factor[at]
        else:
            begin, baseline, gain = self._lead_calibration(positions, term.lead[at])
            begin, factor = begin + starts, (term.weight[at] / gain).astype(np.float32)
        shard = self.shard[group]
        if not self._any_wide:
            return self._take(False, shard, begin, window, baseline, factor)
        out = np.empty((len(starts), window), np.float32)
        for wide in (False, True):
            some = np.flatnonzero(self._wide[group] == wide)
            out[some] = self._take(wide, shard[some], begin[some], window, baseline[some], factor[some])
        return out

    def _take(
        self, wide: bool, shard: Ints, begin: Ints, window: int, baseline: Ints, factor: npt.NDArray[np.float32]
    ) -> Floats:
        def read(at: Ints | slice) -> Floats:
            windows = self._prepared_windows(wide, shard[at], begin[at], window)
            return windows.take(shard[at], begin[at], window, baseline[at], factor[at])

        return self._in_parts(wide, shard, read)

    def _in_parts(self, wide: bool, shard: Ints, read: Callable[[Ints | slice], Floats]) -> Floats:
        """Read all items at once, or in parts if the cache has no space for all of their shards."""
        if not self.store.open_shards.is_bounded or not len(shard):
            return read(slice(None))
        out: Floats | None = None
        for at in self.store.open_shards.in_parts(shard, lambda number: self._open(wide, number)):
            values = read(at)
            if len(at) == len(shard):
                return values
            out = np.empty((len(shard), *values.shape[1:]), np.float32) if out is None else out
            out[at] = values
        assert out is not None
        return out

    def _open(self, wide: bool, number: int) -> None:
        """Add the samples of a shard to the buffers."""
        shard = self.store.shard(number)
        if not self._windows[wide].has(np.array([number]))[0]:
            values, self._file_begin[number] = shard.unchecked_values
            self._windows[wide].add(number, values)

    def forget(self, number: int) -> None:
        """Drop the views into a shard."""
        for windows in self._windows.values():
            windows.remove(number)
        self._file_begin[number] = 0

    def _prepared_windows(self, wide: bool, shard: Ints, begin: Ints, window: int) -> Windows:
        """Return the buffers of these windows, opened and compared with their checksums."""
        windows = self._windows[wide]
        is_open = windows.has(shard)
        for number in () if is_open.all() else np.unique(shard[~is_open]).tolist():
            self._open(wide, number)
        if not self._all_checked:
            self._check(shard, begin, window, windows.itemsize)
        return windows

    def _check(self, shard: Ints, begin: Ints, window: int, itemsize: int) -> None:
        """Check the chunks of a batch. After every quarter of an epoch, test if all chunks were checked."""
        self.store.check_samples(shard, self._file_begin[shard] + begin * itemsize, window * itemsize)
        self._items_until_review -= len(shard)
        if self._items_until_review <= 0:
            self._all_checked = all(map(self._is_checked, self.groups))
            self._items_until_review = self._items_per_review

    def _is_checked(self, group: FrameGroup) -> bool:
        """Return whether all samples of a group's items were checked."""
        file_begin = int(self._file_begin[group.shard])
        if not file_begin:
            return False  # not opened yet
        shard, info = self.store.shard(group.shard), self.store.shards[group.shard]
        rows = np.unique(group.listed[0]) if group.listed is not None else group.rows
        if rows is None:
            rows = np.arange(info.records)
        leads = np.union1d(group.derivation.first, group.derivation.second).astype(np.int64)
        leads = leads[leads >= 0]
        num_samples = shard.num_samples[rows, None]
        begin = shard.offsets[rows, None] + leads * num_samples
        size = np.dtype(info.dtype).itemsize
        return self.store.checked.covers(
            group.shard, file_begin + begin * size, file_begin + (begin + num_samples) * size
        )

    def _lead_calibration(self, positions: ItemPositions, leads: Ints) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
        """Return first sample in the shard, baseline and gain of each item's lead, (N,) each."""
        begin, baseline = np.empty_like(leads), np.empty_like(leads)
        gain = np.empty(len(leads), np.float64)
        for number, at in group_positions(positions.group):
            shard, rows = self.store.shard(self.groups[number].shard), positions.row[at]
            gains, first = shard.lead_values("gain")
            baselines, _ = shard.lead_values("baseline")
            begin[at] = shard.offsets[rows] + leads[at] * shard.num_samples[rows]
            gain[at], baseline[at] = gains[first[rows] + leads[at]], baselines[first[rows] + leads[at]]
        return begin, baseline, gain
