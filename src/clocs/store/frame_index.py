"""Index of the frames of a store under a frame policy. Uniform shards are indexed by arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.recording import missing_value
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import source_window
from clocs.store.lead_derivation import LeadDerivation, lead_derivation
from clocs.store.shard import Shard, ShardInfo

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameGroup:
    """Frames of the recordings of one shard that have the same leads.

    An item is a (row, frame, lead), or with ``all_leads`` a (row, frame) with all leads. Items are indexed from 0.
    They are found by arithmetic if all recordings have the same length (``items_per_row``), by bisection if the lengths
    differ (``row_item_ends``), and listed only if some frames are left out (``listed``).
    """

    shard: int
    """Index of the shard."""
    derivation: LeadDerivation
    """Leads of the frames."""
    leads_per_frame: int
    """Number of items per frame."""
    num_items: int
    """Number of items."""
    num_frames: int
    """Number of frames."""
    rows: Ints | None = None
    """Rows of the shard, (rows,); None for all rows in order."""
    items_per_row: int | None = None
    """Number of items of each row, if it is the same for all."""
    row_item_ends: Ints | None = None
    """End of the items of each row, (rows,), if their numbers differ."""
    listed: tuple[Ints, Ints, Ints] | None = None
    """Row, frame and lead of each item, (items,) each, if some frames are left out."""
    lead_mask: npt.NDArray[np.bool_] | None = None
    """Leads of each item without gaps and exclusions, (items, leads); None for those of the derivation."""

    def locate(self, items: Ints) -> tuple[Ints, Ints, Ints]:
        """Return row, frame and lead (0 with ``all_leads``) of each item, (N,) each."""
        if self.listed is not None:
            rows, frames, leads = self.listed
            return rows[items], frames[items], leads[items]
        if self.items_per_row is not None:
            row, rest = np.divmod(items, self.items_per_row)
        else:
            assert self.row_item_ends is not None
            row = np.searchsorted(self.row_item_ends, items, "right")
            rest = items - np.where(row > 0, self.row_item_ends[row - 1], 0)
        frame, lead = np.divmod(rest, self.leads_per_frame)
        return (row if self.rows is None else self.rows[row]), frame, lead

    def frames_per_row(self, num_rows: int) -> Ints:
        """Return the number of frames of each row of the shard, (num_rows,)."""
        counts = np.zeros(num_rows, np.int64)
        if self.listed is not None:
            counts = np.bincount(self.listed[0], minlength=num_rows)
        elif self.items_per_row is not None:
            counts[slice(None) if self.rows is None else self.rows] = self.items_per_row
        elif self.row_item_ends is not None:
            counts[slice(None) if self.rows is None else self.rows] = np.diff(self.row_item_ends, prepend=0)
        return -(-counts // self.leads_per_frame)


def uniform_group(
    shard: int, info: ShardInfo, policy: FramePolicy, all_leads: bool, records: npt.NDArray[np.bool_] | None = None
) -> FrameGroup | None:
    """Return the group of a shard of equal recordings without reading it; None without frames.

    Args:
        shard: Index of the shard.
        info: Entry of the shard.
        policy: Frame policy.
        all_leads: True for items of all leads.
        records: Recordings to use, a mask over the shard, (recordings,); None for all.
    """
    rows = None if records is None or records.all() else np.flatnonzero(records)
    derivation = lead_derivation(info.leads or (), policy, all_leads)
    frames_per_row = int(policy.num_frames(np.array([info.num_samples or 0]), np.array([info.sampling_rate or 1.0]))[0])
    if derivation is None or not frames_per_row:
        return None
    width = 1 if all_leads else len(derivation.leads)
    total = (info.records if rows is None else len(rows)) * frames_per_row
    if not total:
        return None
    return FrameGroup(shard, derivation, width, total * width, total, rows=rows, items_per_row=frames_per_row * width)


def groups(
    number: int,
    shard: Shard,
    policy: FramePolicy,
    layouts: Mapping[tuple[str, ...], Ints],
    all_leads: bool,
    classes: dict[str, tuple[str, ...]],
) -> list[FrameGroup]:
    """Return the groups of a shard, one for each set of leads with frames.

    Args:
        number: Index of the shard.
        shard: The shard.
        policy: Frame policy.
        layouts: Rows of the shard by stored leads.
        all_leads: True for items of all leads.
        classes: Labels of each class.
    """
    found = []
    for leads, rows in layouts.items():
        derivation = lead_derivation(leads, policy, all_leads) if len(rows) else None
        if derivation is not None:
            found.append(_frame_group(number, shard, policy, derivation, rows, all_leads, classes))
    return [group for group in found if group.num_items]


def _frame_group(
    number: int,
    shard: Shard,
    policy: FramePolicy,
    derivation: LeadDerivation,
    rows: Ints,
    all_leads: bool,
    classes: dict[str, tuple[str, ...]],
) -> FrameGroup:
    frames = policy.num_frames(shard.num_samples[rows], shard.sampling_rate[rows])
    width = 1 if all_leads else len(derivation.leads)
    ends = np.cumsum(frames * width)
    num_items = int(ends[-1])
    is_uniform = bool((frames == frames[0]).all())
    items_per_row, row_item_ends = (int(frames[0]) * width, None) if is_uniform else (None, ends)
    group = FrameGroup(
        number,
        derivation,
        width,
        num_items,
        int(frames.sum()),
        rows=rows,
        items_per_row=items_per_row,
        row_item_ends=row_item_ends,
    )
    needs_class = policy.label_at == "start" and bool(classes)
    if not shard.info.missing and not needs_class and not policy.excluded_leads:
        return group
    present = _present_leads(group, shard, policy, all_leads)
    keep = present.any(axis=1) if policy.allow_missing_leads else present.all(axis=1)
    if needs_class:
        keep &= _has_class(group, shard, policy, classes)
    listed = tuple(array[keep] for array in group.locate(np.arange(num_items)))
    pairs = np.unique(listed[0] * (int(frames.max(initial=0)) + 1) + listed[1])
    mask = present[keep] if all_leads and policy.allow_missing_leads else None
    items = (listed[0], listed[1], listed[2])
    return FrameGroup(number, derivation, width, int(keep.sum()), len(pairs), rows=rows, listed=items, lead_mask=mask)


def _present_leads(group: FrameGroup, shard: Shard, policy: FramePolicy, all_leads: bool) -> npt.NDArray[np.bool_]:
    """Return the leads of each item without gaps and exclusions, (items, leads); (items, 1) for items of one lead."""
    rows, frames, leads = group.locate(np.arange(group.num_items))
    width = len(group.derivation.leads) if all_leads else 1
    present = np.broadcast_to(group.derivation.first >= 0 if all_leads else True, (group.num_items, width)).copy()
    if shard.info.missing:
        present &= _has_no_gap(group, shard, policy, rows, frames, leads[:, None] if not all_leads else None)
    if policy.excluded_leads:
        ids = {name: row for row, name in enumerate(shard.column("record_id").to_pylist())}
        for record_id, lead in policy.excluded_leads:
            if record_id in ids and lead in group.derivation.leads:
                index, is_record = group.derivation.leads.index(lead), rows == ids[record_id]
                if all_leads:
                    present[is_record, index] = False
                else:
                    present[is_record & (leads == index)] = False
    return present


def _has_class(
    group: FrameGroup, shard: Shard, policy: FramePolicy, classes: dict[str, tuple[str, ...]]
) -> npt.NDArray[np.bool_]:
    """Return whether the first sample of each item is in an episode with a class, (items,)."""
    rows, frames, _ = group.locate(np.arange(group.num_items))
    classified = {label for labels in classes.values() for label in labels}
    labels = episode_labels(shard, rows, frame_starts(shard, policy, rows, frames))
    return np.array([label in classified for label in labels], bool)


def _has_no_gap(
    group: FrameGroup, shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints, leads: Ints | None
) -> npt.NDArray[np.bool_]:
    """Return which leads have no missing sample, (items, leads). Only recordings with gaps are read.

    ``leads`` is the lead of each item, (items, 1), or None for all leads of the derivation.
    """
    counts, starts = shard.lead_values("missing")
    has_gaps = np.add.reduceat(counts, starts[:-1]) > 0 if len(counts) else np.zeros(0, bool)
    all_indices = np.arange(len(group.derivation.leads))
    keep = np.ones((len(rows), len(all_indices) if leads is None else 1), bool)
    marker = missing_value(np.dtype(shard.info.dtype))
    items = np.flatnonzero(has_gaps[rows])
    begins, ends, _ = source_windows(
        policy, frames[items], shard.num_samples[rows[items]], shard.sampling_rate[rows[items]]
    )
    for item, begin, end in zip(items, begins, ends, strict=True):
        gapped = (shard.digital(int(rows[item]))[:, begin:end] == marker).any(axis=1)
        gapped = np.append(gapped, False)  # index -1: no such lead
        indices = all_indices if leads is None else leads[item]
        keep[item] = ~(gapped[group.derivation.first[indices]] | gapped[group.derivation.second[indices]])
    return keep


def source_windows(
    policy: FramePolicy, frames: Ints, num_samples: Ints, rates: npt.NDArray[np.float64]
) -> tuple[Ints, Ints, Ints]:
    """Return the window of its recording that each frame is computed from, including the reach of the filter.

    Args:
        policy: Frame policy.
        frames: Index of each frame in its recording, (N,).
        num_samples: Number of samples of each recording, (N,).
        rates: Sampling rate of each recording in Hz, (N,).

    Returns:
        First sample, end, and number of resampled samples before the frame, (N,) each.
    """
    first, end, before = np.empty_like(frames), np.empty_like(frames), np.zeros_like(frames)
    length = policy.num_segments * policy.num_samples
    for sampling_rate in np.unique(rates):
        at = np.flatnonzero(rates == sampling_rate)
        if policy.sampling_rate is not None and policy.sampling_rate != sampling_rate:
            hop = policy.hop_length(policy.sampling_rate) or length
            first[at], end[at], before[at] = source_window(
                frames[at] * hop, length, num_samples[at], float(sampling_rate), policy.sampling_rate
            )
        else:
            window = policy.window_length(float(sampling_rate)) or num_samples[at]
            first[at] = frames[at] * (policy.hop_length(float(sampling_rate)) or num_samples[at])
            end[at] = first[at] + window
    return first, end, before


def frame_starts(shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints) -> Ints:
    """Return the first sample of each frame, at the sampling rate of its recording, (N,)."""
    hops = {
        float(sampling_rate): policy.hop_length(float(sampling_rate)) or 0
        for sampling_rate in np.unique(shard.sampling_rate[rows])
    }
    return np.asarray(
        frames * np.array([hops[float(sampling_rate)] for sampling_rate in shard.sampling_rate[rows]], np.int64)
    )


def episode_labels(shard: Shard, rows: Ints, starts: Ints) -> list[str | None]:
    """Return the label of the episode at each (row, sample); None without an episode."""
    episodes = {int(row): shard.column("episodes")[int(row)].as_py() for row in np.unique(rows)}
    return [
        next((item["label"] for item in episodes[int(row)] if item["start"] <= start < item["end"]), None)
        for row, start in zip(rows, starts, strict=True)
    ]
