"""Frames of a store under a policy: counted, drawn in batches, labelled, cached."""

from __future__ import annotations

import copy
import functools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats, resample, resample_to_length
from clocs.store.frame_cache import FrameCache, cache_file
from clocs.store.frame_index import (
    Block,
    Ints,
    blocks,
    common_leads,
    episode_labels,
    frame_starts,
    source_of,
    uniform_block,
)
from clocs.store.gatherer import Gatherer, Places, groups

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader


class Frames:
    """Items numbered from 0: single-lead instances, or with ``all_leads`` frames of all leads at once.

    ``records``: which recordings take part (a mask over the store's numbers), as a split gives it. With ``all_leads``,
    those that lack a lead are left out; where the policy names no leads, they are those that most recordings have.
    """

    def __init__(
        self,
        store: StoreReader,
        policy: FramePolicy,
        *,
        records: npt.NDArray[np.bool_] | None = None,
        all_leads: bool = False,
    ) -> None:
        if records is not None and len(records) != len(store):
            raise ConfigError(f"a mask over {len(records)} recordings does not fit a store of {len(store)}")
        if records is not None and np.asarray(records).dtype != bool:
            raise ConfigError("records: a mask is wanted, true or false for each recording, as split.mask('train') is")
        self.store, self.records, self.all_leads = store, records, all_leads
        leads = self._common_leads() if all_leads and not policy.leads else policy.leads
        self.policy = policy.model_copy(update={"leads": leads})
        self.classes = {name: tuple(labels) for name, labels in store.manifest.dataset["classes"].items()}
        self.blocks = [block for number in range(len(store.manifest.shards)) for block in self._blocks(number)]
        self._gatherer = Gatherer(store, self.blocks)
        self._cache: FrameCache | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as store, policy and recordings: another process opens the store itself."""
        make = functools.partial(type(self), records=self.records, all_leads=self.all_leads)
        return make, (self.store, self.policy), {"_cache": self._cache}

    def _common_leads(self) -> tuple[str, ...]:
        numbers = range(len(self.store.manifest.shards))
        found = (item for number in numbers for item in self.store.rows_by_leads(number, self.records).items())
        return common_leads((leads, len(rows)) for leads, rows in found if len(rows))

    def _blocks(self, number: int) -> list[Block]:
        info, policy = self.store.manifest.shards[number], self.policy
        alike = info.leads is not None and info.sampling_rate is not None and info.num_samples is not None
        whole = not info.missing and not policy.excluded_leads and policy.label_at == "recording"
        if alike and whole and self.records is None:
            block = uniform_block(number, info, policy, self.all_leads)
            return [block] if block is not None else []
        shard = self.store.shard(number)
        rows_by_leads = self.store.rows_by_leads(number, self.records)
        return blocks(number, shard, policy, rows_by_leads, self.all_leads, self.classes)

    def __len__(self) -> int:
        return len(self._gatherer)

    @property
    def frames(self) -> int:
        """Frames, however many leads of each are items."""
        return sum(block.frames for block in self.blocks)

    @property
    def leads(self) -> tuple[str, ...]:
        """Leads of the items, in the order ``gather`` has them with ``all_leads``."""
        return self.policy.leads or tuple(dict.fromkeys(lead for block in self.blocks for lead in block.recipe.leads))

    def frames_per_record(self) -> Ints:
        """(recordings of the store,)."""
        counts = np.zeros(len(self.store), np.int64)
        for block in self.blocks:
            first, records = self.store.shard_starts[block.shard], self.store.manifest.shards[block.shard].records
            counts[first : first + records] += block.frames_per_row(records)
        return counts

    def locate(self, items: npt.ArrayLike) -> tuple[Ints, Ints, npt.NDArray[np.str_]]:
        """Record number, frame within it, and lead of each item (empty with ``all_leads``)."""
        places = self._gatherer.places(items)
        leads = np.full(len(places.row), "", f"U{max(map(len, self.leads), default=1)}")
        for block, at in groups(places.block) if not self.all_leads else ():
            leads[at] = np.array(self.blocks[block].recipe.leads)[places.lead[at]]
        return self._recordings(places), places.frame, leads

    def recording_indices(self, items: npt.ArrayLike) -> Ints:
        """Return the recording of each item by its number in the store, (items,)."""
        return self._recordings(self._gatherer.places(items))

    def _recordings(self, places: Places) -> Ints:
        return np.asarray(self.store.shard_starts[self._gatherer.shard[places.block]] + places.row)

    def gather(self, items: npt.ArrayLike) -> Floats:
        """(items, segments, samples), or with ``all_leads`` (items, leads, segments, samples).

        In the store's unit (mV; raw steps where a dataset has no gain), or 0..1 by the policy.
        """
        frames = self.views(items)
        return frames.swapaxes(1, 2) if self.all_leads else frames[:, :, 0]

    def views(self, items: npt.ArrayLike) -> Floats:
        """Return the frames as an encoder takes them, (items, segments, leads, samples); one lead unless ``all_leads``.

        Units as in ``gather``; missing leads are zero.
        """
        if self._cache is not None:
            return self._cache.take(self._gatherer.checked_items(items))
        places = self._gatherer.places(items)
        mask = self.lead_mask(items) if self.policy.allow_missing_leads and self.all_leads else None
        window = self._window
        if window is None or self._resamples(places):
            return self.policy.shape_windows(self._resampled(places), mask)
        starts = places.frame * window
        if self.all_leads and window == self.policy.num_segments * self.policy.num_samples:
            return self.policy.normalize(self._segments(places, starts), mask)
        return self.policy.shape_windows(self._cut(places, starts, window), mask)

    def lead_mask(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return which leads each frame has, (items, leads); (items, 1) of true unless ``all_leads``."""
        if self.all_leads and self.blocks:
            return self._gatherer.lead_mask(items)
        return np.ones((len(self._gatherer.checked_items(items)), self._num_channels), bool)

    @property
    def _num_channels(self) -> int:
        return len(self.leads) if self.all_leads else 1

    def _cut(self, places: Places, starts: Ints, window: int) -> Floats:
        """(items, leads, window)."""
        if not len(starts):
            return np.empty((0, self._num_channels, window), np.float32)
        if self.all_leads:
            return self._gatherer.stacked(places, starts, window)
        return self._gatherer.windows(places, starts, window)[:, None]

    def _segments(self, places: Places, starts: Ints) -> Floats:
        """(items, segments, leads, samples): each segment is cut by itself, so that none is copied to its position."""
        segments, num_samples = self.policy.num_segments, self.policy.num_samples
        each = places.pick(np.repeat(np.arange(len(starts)), segments)) if segments > 1 else places
        begin = (starts[:, None] + np.arange(segments) * num_samples).reshape(-1)
        return self._cut(each, begin, num_samples).reshape(len(starts), segments, self._num_channels, num_samples)

    def _resampled(self, places: Places) -> Floats:
        """(items, leads, samples of a frame) of recordings that are resampled or taken whole.

        Frames that share rate, length and offset are made at once.
        """
        rates, num_samples = np.empty(len(places.row), np.float64), np.empty(len(places.row), np.int64)
        for block, at in groups(places.block):
            shard, rows = self.store.shard(self.blocks[block].shard), places.row[at]
            rates[at], num_samples[at] = shard.sampling_rate[rows], shard.num_samples[rows]
        first, end, before = source_of(self.policy, places.frame, num_samples, rates)
        length = self.policy.num_segments * self.policy.num_samples
        out = np.empty((len(places.row), self._num_channels, length), np.float32)
        _, same = np.unique(np.stack([rates, end - first, before]), axis=1, return_inverse=True)
        for _, at in groups(same):
            one = at[0]
            window = self._cut(places.pick(at), first[at], int(end[one] - first[one]))
            if self.policy.sampling_rate is not None:
                window = resample(window, float(rates[one]), self.policy.sampling_rate)[
                    ..., before[one] : before[one] + length
                ]
            out[at] = resample_to_length(window, length)
        return out

    def _resamples(self, places: Places) -> bool:
        """Whether an item's recording has another rate than the policy enforces."""
        if self.policy.sampling_rate is None or self._at_one_rate:
            return False
        rates = (
            self.store.shard(self.blocks[block].shard).sampling_rate[places.row[at]]
            for block, at in groups(places.block)
        )
        return any(bool((sampling_rate != self.policy.sampling_rate).any()) for sampling_rate in rates)

    @functools.cached_property
    def _window(self) -> int | None:
        """Samples to cut per frame, where every recording gives as many; None: their number differs."""
        return (
            None
            if self.policy.num_source_samples == "recording"
            else self.policy.window_length(self.policy.sampling_rate or 0.0)
        )

    @functools.cached_property
    def _at_one_rate(self) -> bool:
        return all(
            self.store.manifest.shards[block.shard].sampling_rate == self.policy.sampling_rate for block in self.blocks
        )

    def targets(self, items: npt.ArrayLike, recordings: Ints | None = None) -> npt.NDArray[np.bool_]:
        """(items, classes), in the order of ``classes``: by recording, or by the frame's first sample.

        ``recordings``: of the items, where they are known already.
        """
        if self.policy.label_at == "recording":
            return self._recording_targets[self.recording_indices(items) if recordings is None else recordings]
        places = self._gatherer.places(items)
        out = np.zeros((len(places.row), len(self.classes)), bool)
        for block, at in groups(places.block):
            shard, rows = self.store.shard(self.blocks[block].shard), places.row[at]
            found = episode_labels(shard, rows, frame_starts(shard, self.policy, rows, places.frame[at]))
            out[at] = [[label in group for group in self.classes.values()] for label in found]
        return out

    @functools.cached_property
    def _recording_targets(self) -> npt.NDArray[np.bool_]:
        """(recordings of the store, classes): whether a recording has a label of the class."""
        import pyarrow as pa
        import pyarrow.compute as pc

        out = np.zeros((len(self.store), len(self.classes)), bool)
        for number in range(len(self.store.manifest.shards)):
            column = self.store.shard(number).column("labels")
            labels, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
            for place, group in enumerate(self.classes.values()):
                hit = pc.is_in(labels, pa.array(group, labels.type)).to_numpy(zero_copy_only=False)
                out[self.store.shard_starts[number] + rows[hit], place] = True
        return out

    def cached(self, folder: str | os.PathLike[str] | None = None) -> Frames:
        """Return the same frames, read from a file that holds them ready made.

        Worth it where a policy resamples and frames are read many times. The file is made once for a store and a
        policy, whatever the recordings, and named by a hash of what goes into it. It is hashed whole when it is
        opened; a damaged one is made again.

        Args:
            folder: Folder of the file. Default: ``frames`` in the store's folder, or, where that cannot be written
                to, a private temporary folder that is deleted when the process ends.
        """
        whole = self if self.records is None else Frames(self.store, self.policy, all_leads=self.all_leads)
        made = copy.copy(self)
        made._cache = FrameCache(cache_file(whole, folder), None if whole is self else self._numbers_in(whole))
        return made

    def _numbers_in(self, whole: Frames) -> Ints:
        """Return the number of each item among the items of all recordings."""
        ours, theirs = self._keys(whole.leads), whole._keys(whole.leads)
        assert self.records is not None
        chosen = np.flatnonzero(self.records[theirs[-1]])
        numbers = np.empty(len(self), np.int64)
        numbers[np.lexsort(ours)] = chosen[np.lexsort([key[chosen] for key in theirs])]
        return numbers

    def _keys(self, leads: tuple[str, ...]) -> tuple[Ints, Ints, Ints]:
        """Return lead, as its position among ``leads``, frame and recording of every item."""
        places = self._gatherer.places(np.arange(len(self)))
        lead = np.zeros_like(places.lead)
        for block, at in groups(places.block) if not self.all_leads else ():
            lead[at] = np.array([leads.index(name) for name in self.blocks[block].recipe.leads])[places.lead[at]]
        return lead, places.frame, self._recordings(places)
