"""Frames of a store under a frame policy, in batches, with labels and an optional cache."""

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
    FrameGroup,
    Ints,
    episode_labels,
    frame_starts,
    groups,
    source_windows,
    uniform_group,
)
from clocs.store.gatherer import Gatherer, ItemPositions, group_positions
from clocs.store.lead_derivation import most_common_leads

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader


class Frames:
    """Frames of a store, indexed from 0. An item is one lead of a frame, or with ``all_leads`` a frame of all leads.

    Args:
        store: The store.
        policy: Frame policy. With ``all_leads`` and a policy without leads, the most common leads are used.
        records: Recordings to use, a mask over the store as ``split.mask("train")``; by default all.
        all_leads: True for items of all leads. Recordings that lack a lead are left out unless the policy allows it.
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
            raise ConfigError(f"Expected a mask of {len(store)} recordings, got {len(records)}.")
        if records is not None and np.asarray(records).dtype != bool:
            raise ConfigError("Expected records as a boolean mask over the store, such as split.mask('train').")
        self.store, self.records, self.all_leads = store, records, all_leads
        leads = self._most_common_leads() if all_leads and not policy.leads else policy.leads
        self.policy = policy.model_copy(update={"leads": leads})
        self.classes = {name: tuple(labels) for name, labels in store.manifest.dataset["classes"].items()}
        self.groups = [group for number in range(len(store.shards)) for group in self._groups_of_shard(number)]
        self._gatherer = Gatherer(store, self.groups)
        self._cache: FrameCache | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as store, policy and mask: another process opens the store itself."""
        make = functools.partial(type(self), records=self.records, all_leads=self.all_leads)
        return make, (self.store, self.policy), {"_cache": self._cache}

    def _most_common_leads(self) -> tuple[str, ...]:
        numbers = range(len(self.store.shards))
        found = (item for number in numbers for item in self.store.rows_by_leads(number, self.records).items())
        return most_common_leads((leads, len(rows)) for leads, rows in found if len(rows))

    def _groups_of_shard(self, number: int) -> list[FrameGroup]:
        info, policy = self.store.shards[number], self.policy
        is_uniform = info.leads is not None and info.sampling_rate is not None and info.num_samples is not None
        is_complete = not info.missing and not policy.excluded_leads and policy.label_at == "recording"
        if is_uniform and is_complete:
            begin = int(self.store.shard_starts[number])
            mask = None if self.records is None else self.records[begin : begin + info.records]
            group = uniform_group(number, info, policy, self.all_leads, mask)
            return [group] if group is not None else []
        shard = self.store.shard(number)
        rows_by_leads = self.store.rows_by_leads(number, self.records)
        return groups(number, shard, policy, rows_by_leads, self.all_leads, self.classes)

    def __len__(self) -> int:
        return len(self._gatherer)

    @property
    def num_frames(self) -> int:
        """Number of frames, independent of the leads per frame."""
        return sum(group.num_frames for group in self.groups)

    @property
    def leads(self) -> tuple[str, ...]:
        """Leads of the items, in the order of ``gather`` with ``all_leads``."""
        return self.policy.leads or tuple(
            dict.fromkeys(lead for group in self.groups for lead in group.derivation.leads)
        )

    def frames_per_record(self) -> Ints:
        """Return the number of frames of each recording of the store, (recordings,)."""
        counts = np.zeros(len(self.store), np.int64)
        for group in self.groups:
            first, records = self.store.shard_starts[group.shard], self.store.shards[group.shard].records
            counts[first : first + records] += group.frames_per_row(records)
        return counts

    def items_per_shard(self) -> Ints:
        """Return the number of items of each shard, (shards,). Items are numbered in the order of the shards."""
        counts = np.zeros(len(self.store.shards), np.int64)
        for group in self.groups:
            counts[group.shard] += group.num_items
        return counts

    def locate(self, items: npt.ArrayLike) -> tuple[Ints, Ints, npt.NDArray[np.str_]]:
        """Return recording, frame within it and lead of each item, (N,) each. The lead is empty with ``all_leads``."""
        positions = self._gatherer.positions(items)
        leads = np.full(len(positions.row), "", f"U{max(map(len, self.leads), default=1)}")
        for group, at in group_positions(positions.group) if not self.all_leads else ():
            leads[at] = np.array(self.groups[group].derivation.leads)[positions.lead[at]]
        return self._recordings(positions), positions.frame, leads

    def recording_indices(self, items: npt.ArrayLike) -> Ints:
        """Return the index of each item's recording in the store, (N,)."""
        return self._recordings(self._gatherer.positions(items))

    def _recordings(self, positions: ItemPositions) -> Ints:
        return np.asarray(self.store.shard_starts[self._gatherer.shard[positions.group]] + positions.row)

    def gather(self, items: npt.ArrayLike) -> Floats:
        """Return frames, (N, segments, samples), or with ``all_leads`` (N, leads, segments, samples).

        Values are in the store's unit (mV, or raw steps for a dataset without gain) unless the policy normalizes them.
        """
        frames = self.views(items)
        return frames.swapaxes(1, 2) if self.all_leads else frames[:, :, 0]

    def views(self, items: npt.ArrayLike) -> Floats:
        """Return frames in the layout of encoders, (N, segments, leads, samples), with one lead unless ``all_leads``.

        Values have the units of ``gather``. Missing leads are zero.
        """
        if self._cache is not None:
            return self._cache.take(self._gatherer.validate_items(items))
        positions = self._gatherer.positions(items)
        mask = self.lead_mask(items) if self.policy.allow_missing_leads and self.all_leads else None
        window = self._window
        if window is None or self._needs_resampling(positions):
            return self.policy.shape_windows(self._resampled(positions), mask)
        starts = positions.frame * (self.policy.hop_length(self.policy.sampling_rate or 0.0) or 0)
        if self.all_leads and window == self.policy.num_segments * self.policy.num_samples:
            return self.policy.normalize(self._read_segments(positions, starts), mask)
        return self.policy.shape_windows(self._read_windows(positions, starts, window), mask)

    def lead_mask(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return which leads each frame has, (N, leads) bool; (N, 1) of true unless ``all_leads``."""
        if self.all_leads and self.groups:
            return self._gatherer.lead_mask(items)
        return np.ones((len(self._gatherer.validate_items(items)), self._num_channels), bool)

    @property
    def _num_channels(self) -> int:
        return len(self.leads) if self.all_leads else 1

    def _read_windows(self, positions: ItemPositions, starts: Ints, window: int) -> Floats:
        """Read a window of each item, (N, leads, window)."""
        if not len(starts):
            return np.empty((0, self._num_channels, window), np.float32)
        if self.all_leads:
            return self._gatherer.all_lead_windows(positions, starts, window)
        return self._gatherer.windows(positions, starts, window)[:, None]

    def _read_segments(self, positions: ItemPositions, starts: Ints) -> Floats:
        """Read frames segment by segment, which avoids a copy, (N, segments, leads, samples)."""
        segments, num_samples = self.policy.num_segments, self.policy.num_samples
        repeated = positions.take(np.repeat(np.arange(len(starts)), segments)) if segments > 1 else positions
        begin = (starts[:, None] + np.arange(segments) * num_samples).reshape(-1)
        return self._read_windows(repeated, begin, num_samples).reshape(
            len(starts), segments, self._num_channels, num_samples
        )

    def _resampled(self, positions: ItemPositions) -> Floats:
        """Read frames of recordings that are resampled or stretched, (N, leads, samples).

        Frames with the same sampling rate, length and offset are computed together.
        """
        rates, num_samples = np.empty(len(positions.row), np.float64), np.empty(len(positions.row), np.int64)
        for group, at in group_positions(positions.group):
            shard, rows = self.store.shard(self.groups[group].shard), positions.row[at]
            rates[at], num_samples[at] = shard.sampling_rate[rows], shard.num_samples[rows]
        first, end, before = source_windows(self.policy, positions.frame, num_samples, rates)
        length = self.policy.num_segments * self.policy.num_samples
        out = np.empty((len(positions.row), self._num_channels, length), np.float32)
        _, kinds = np.unique(np.stack([rates, end - first, before]), axis=1, return_inverse=True)
        for _, at in group_positions(kinds):
            first_item = at[0]
            window = self._read_windows(positions.take(at), first[at], int(end[first_item] - first[first_item]))
            if self.policy.sampling_rate is not None:
                window = resample(window, float(rates[first_item]), self.policy.sampling_rate)[
                    ..., before[first_item] : before[first_item] + length
                ]
            out[at] = resample_to_length(window, length)
        return out

    def _needs_resampling(self, positions: ItemPositions) -> bool:
        """Return whether a recording has another sampling rate than the policy."""
        if self.policy.sampling_rate is None or self._at_one_rate:
            return False
        rates = (
            self.store.shard(self.groups[group].shard).sampling_rate[positions.row[at]]
            for group, at in group_positions(positions.group)
        )
        return any(bool((sampling_rate != self.policy.sampling_rate).any()) for sampling_rate in rates)

    @functools.cached_property
    def _window(self) -> int | None:
        """Number of samples per frame; None if it differs between recordings."""
        return (
            None
            if self.policy.num_source_samples == "recording"
            else self.policy.window_length(self.policy.sampling_rate or 0.0)
        )

    @functools.cached_property
    def _at_one_rate(self) -> bool:
        return all(self.store.shards[group.shard].sampling_rate == self.policy.sampling_rate for group in self.groups)

    def targets(self, items: npt.ArrayLike, recordings: Ints | None = None) -> npt.NDArray[np.bool_]:
        """Return the classes of each item, (N, classes) bool, in the order of ``classes``.

        The policy decides whether an item has the labels of its recording or of the episode at its first sample.

        Args:
            items: Indices of the items, (N,).
            recordings: Indices of the items' recordings, (N,), if they are known.
        """
        if self.policy.label_at == "recording":
            return self._recording_targets[self.recording_indices(items) if recordings is None else recordings]
        positions = self._gatherer.positions(items)
        out = np.zeros((len(positions.row), len(self.classes)), bool)
        for group, at in group_positions(positions.group):
            shard, rows = self.store.shard(self.groups[group].shard), positions.row[at]
            labels = episode_labels(shard, rows, frame_starts(shard, self.policy, rows, positions.frame[at]))
            out[at] = [[label in names for names in self.classes.values()] for label in labels]
        return out

    @functools.cached_property
    def _recording_targets(self) -> npt.NDArray[np.bool_]:
        """Classes of each recording, (recordings, classes) bool."""
        import pyarrow as pa
        import pyarrow.compute as pc

        out = np.zeros((len(self.store), len(self.classes)), bool)
        first = 0
        for column in self.store.table(["labels"]).column(0).chunks:
            labels, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
            for index, names in enumerate(self.classes.values()):
                is_member = pc.is_in(labels, pa.array(names, labels.type)).to_numpy(zero_copy_only=False)
                out[first + rows[is_member], index] = True
            first += len(column)
        return out

    def cached(self, folder: str | os.PathLike[str] | None = None) -> Frames:
        """Return the same frames, read from a cache file.

        This is faster if the policy resamples and frames are read many times. The file holds the frames of all
        recordings. It is written once for a store and a policy, verified when it is opened, and written again if it is
        damaged.

        Args:
            folder: Folder of the cache. By default ``frames`` in the store's folder, or a temporary folder if the
                store is read-only.

        Returns:
            Frames with the same items.
        """
        all_frames = self if self.records is None else Frames(self.store, self.policy, all_leads=self.all_leads)
        cached = copy.copy(self)
        indices = None if all_frames is self else self._indices_in(all_frames)
        cached._cache = FrameCache(cache_file(all_frames, folder), indices)
        return cached

    def _indices_in(self, all_frames: Frames) -> Ints:
        """Return the index of each item among the items of all recordings, (items,)."""
        own_keys, all_keys = self._sort_keys(all_frames.leads), all_frames._sort_keys(all_frames.leads)
        assert self.records is not None
        selected = np.flatnonzero(self.records[all_keys[-1]])
        indices = np.empty(len(self), np.int64)
        indices[np.lexsort(own_keys)] = selected[np.lexsort([key[selected] for key in all_keys])]
        return indices

    def _sort_keys(self, leads: tuple[str, ...]) -> tuple[Ints, Ints, Ints]:
        """Return lead (as an index into ``leads``), frame and recording of every item, (items,) each."""
        positions = self._gatherer.positions(np.arange(len(self)))
        lead = np.zeros_like(positions.lead)
        for group, at in group_positions(positions.group) if not self.all_leads else ():
            lead[at] = np.array([leads.index(name) for name in self.groups[group].derivation.leads])[positions.lead[at]]
        return lead, positions.frame, self._recordings(positions)
