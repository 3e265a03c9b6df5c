"""Which frames a store holds under a policy, without listing them where arithmetic will do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.recording import missing_value
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import COMBINATIONS, derivable
from clocs.signals.resampling import source_window
from clocs.store.shard import Shard, ShardInfo

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """Each wanted lead as a weighted sum of up to two stored ones. All arrays are (leads,)."""

    leads: tuple[str, ...]
    first: Ints
    first_weight: npt.NDArray[np.float32]
    second: Ints
    """-1: the lead is stored as it is."""
    second_weight: npt.NDArray[np.float32]


def common_leads(layouts: Iterable[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """Of stored leads and how many recordings have them: all leads, derived ones too, of the commonest set.

    Of sets as common, the largest; in the order in which it came first.
    """
    orders: dict[frozenset[str], tuple[str, ...]] = {}
    counts: Counter[frozenset[str]] = Counter()
    for stored, count in layouts:
        leads = stored + derivable(stored)
        orders.setdefault(frozenset(leads), leads)
        counts[frozenset(leads)] += count
    return orders[max(counts, key=lambda leads: (counts[leads], len(leads)))] if counts else ()


def recipe(stored: tuple[str, ...], wanted: tuple[str, ...]) -> Recipe:
    """How to get the wanted leads (empty: all there are); those that cannot be had are left out."""
    derived = derivable(stored)
    leads = tuple(lead for lead in (wanted or stored + derived) if lead in stored or lead in derived)
    rows = []
    for lead in leads:
        terms = {lead: 1.0} if lead in stored else COMBINATIONS[lead]
        (first, weight), *more = terms.items()
        second, other = more[0] if more else ("", 0.0)
        rows.append((stored.index(first), weight, stored.index(second) if second else -1, other))
    first_at, first_weight, second_at, second_weight = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Recipe(
        leads,
        np.array(first_at, np.int64),
        np.array(first_weight, np.float32),
        np.array(second_at, np.int64),
        np.array(second_weight, np.float32),
    )


@dataclass(frozen=True)
class Block:
    """Recordings of one shard that share their leads; its items are numbered from 0.

    An item is a (row, frame, lead), or with ``all_leads`` a (row, frame) with all leads. Items are found
    by arithmetic where all recordings are alike (``per_row``), by bisection where their lengths differ
    (``row_ends``), and listed only where some are left out (``listed``).
    """

    shard: int
    recipe: Recipe
    leads_per_frame: int
    total: int
    frames: int
    rows: Ints | None = None
    """Rows of the shard; None: all, in order."""
    per_row: int | None = None
    row_ends: Ints | None = None
    listed: tuple[Ints, Ints, Ints] | None = None

    def locate(self, items: Ints) -> tuple[Ints, Ints, Ints]:
        """Row, frame and lead (0 with ``all_leads``) of each item."""
        if self.listed is not None:
            rows, frames, leads = self.listed
            return rows[items], frames[items], leads[items]
        if self.per_row is not None:
            row, rest = np.divmod(items, self.per_row)
        else:
            assert self.row_ends is not None
            row = np.searchsorted(self.row_ends, items, "right")
            rest = items - np.where(row > 0, self.row_ends[row - 1], 0)
        frame, lead = np.divmod(rest, self.leads_per_frame)
        return (row if self.rows is None else self.rows[row]), frame, lead

    def frames_per_row(self, rows: int) -> Ints:
        """Items of each of the shard's rows, divided by the leads of a frame, rounded up."""
        counts = np.zeros(rows, np.int64)
        if self.listed is not None:
            counts = np.bincount(self.listed[0], minlength=rows)
        elif self.per_row is not None:
            counts[slice(None) if self.rows is None else self.rows] = self.per_row
        elif self.row_ends is not None:
            counts[slice(None) if self.rows is None else self.rows] = np.diff(self.row_ends, prepend=0)
        return -(-counts // self.leads_per_frame)


def uniform_block(number: int, info: ShardInfo, policy: FramePolicy, all_leads: bool) -> Block | None:
    """The block of a shard whose recordings are all alike; nothing of it is read."""
    made = _usable(recipe(info.leads or (), policy.leads), policy, all_leads)
    frames = int(policy.count(np.array([info.samples or 0]), np.array([info.rate or 1.0]))[0])
    if made is None or not frames:
        return None
    width = 1 if all_leads else len(made.leads)
    total = info.records * frames
    return Block(number, made, width, total * width, total, per_row=frames * width)


def _usable(made: Recipe, policy: FramePolicy, all_leads: bool) -> Recipe | None:
    """With ``all_leads`` a recording must have every wanted lead."""
    lacking = not made.leads or (all_leads and policy.leads and made.leads != policy.leads)
    return None if lacking else made


def blocks(
    number: int,
    shard: Shard,
    policy: FramePolicy,
    layouts: Mapping[tuple[str, ...], Ints],
    all_leads: bool,
    classes: dict[str, tuple[str, ...]],
) -> list[Block]:
    """The blocks of any shard, one for each set of leads in it; ``layouts``: its rows by their stored leads."""
    found = []
    for leads, members in layouts.items():
        made = _usable(recipe(leads, policy.leads), policy, all_leads)
        if made is not None and len(members):
            found.append(_block(number, shard, policy, made, members, all_leads, classes))
    return [block for block in found if block.total]


def _block(
    number: int,
    shard: Shard,
    policy: FramePolicy,
    made: Recipe,
    rows: Ints,
    all_leads: bool,
    classes: dict[str, tuple[str, ...]],
) -> Block:
    frames = policy.count(shard.samples[rows], shard.rate[rows])
    width = 1 if all_leads else len(made.leads)
    ends = np.cumsum(frames * width)
    total = int(ends[-1])
    alike = bool((frames == frames[0]).all())
    per_row, row_ends = (int(frames[0]) * width, None) if alike else (None, ends)
    block = Block(number, made, width, total, int(frames.sum()), rows=rows, per_row=per_row, row_ends=row_ends)
    keep = _kept(block, shard, policy, all_leads, classes)
    if keep is None:
        return block
    listed = tuple(array[keep] for array in block.locate(np.arange(total)))
    pairs = np.unique(listed[0] * (int(frames.max(initial=0)) + 1) + listed[1])
    return Block(number, made, width, int(keep.sum()), len(pairs), rows=rows, listed=(listed[0], listed[1], listed[2]))


def _kept(
    block: Block, shard: Shard, policy: FramePolicy, all_leads: bool, classes: dict[str, tuple[str, ...]]
) -> npt.NDArray[np.bool_] | None:
    """Which items stay: whole ones, with a label that has a class. None: all."""
    by_label = policy.label_at == "start" and bool(classes)
    if not shard.info.missing and not by_label and not policy.excluded:
        return None
    rows, frames, leads = block.locate(np.arange(block.total))
    keep = np.ones(block.total, bool)
    if shard.info.missing:
        keep &= _whole(block, shard, policy, rows, frames, leads, all_leads)
    if policy.excluded:
        ids = shard.column("record_id").to_pylist()
        for record_id, lead in policy.excluded:
            if record_id in ids and lead in block.recipe.leads:
                hit = rows == ids.index(record_id)
                keep &= ~(hit & (all_leads | (leads == block.recipe.leads.index(lead))))
    if by_label:
        known = {label for labels in classes.values() for label in labels}
        starts = frame_starts(shard, policy, rows, frames)
        keep &= np.array([label in known for label in episode_labels(shard, rows, starts)], bool)
    return keep


def _whole(
    block: Block, shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints, leads: Ints, all_leads: bool
) -> npt.NDArray[np.bool_]:
    """Items without a missing sample, looked up only in recordings that miss some."""
    counts, starts = shard.lead_values("missing")
    suspect = np.add.reduceat(counts, starts[:-1]) > 0 if len(counts) else np.zeros(0, bool)
    keep = np.ones(len(rows), bool)
    marker = missing_value(np.dtype(shard.info.dtype))
    for item in np.flatnonzero(suspect[rows]):
        row = rows[item]
        samples = int(shard.samples[row])
        lead_rows = shard.digital(int(row))
        begin, end, _ = source_of(policy, int(frames[item]), samples, float(shard.rate[row]))
        wanted = range(len(block.recipe.leads)) if all_leads else (int(leads[item]),)
        used = {int(place[lead]) for lead in wanted for place in (block.recipe.first, block.recipe.second)} - {-1}
        keep[item] = not (lead_rows[sorted(used), begin:end] == marker).any()
    return keep


def source_of(policy: FramePolicy, frame: int, samples: int, rate: float) -> tuple[int, int, int]:
    """The stretch of a recording that a frame is made of, first sample and end; what a filter reaches for included.

    And how many samples of the new rate it gives before the frame begins.
    """
    if policy.rate is not None and policy.rate != rate:
        length = policy.segments * policy.samples
        return source_window(frame * length, length, samples, rate, policy.rate)
    window = policy.window(rate) or samples
    return frame * window, (frame + 1) * window, 0


def frame_starts(shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints) -> Ints:
    """First sample of each frame, in the recording's own samples."""
    windows = {float(rate): policy.window(float(rate)) or 0 for rate in np.unique(shard.rate[rows])}
    return np.asarray(frames * np.array([windows[float(rate)] for rate in shard.rate[rows]], np.int64))


def episode_labels(shard: Shard, rows: Ints, starts: Ints) -> list[str | None]:
    """The label of the episode that each (row, sample) lies in."""
    episodes = {int(row): shard.column("episodes")[int(row)].as_py() for row in np.unique(rows)}
    return [
        next((item["label"] for item in episodes[int(row)] if item["start"] <= start < item["end"]), None)
        for row, start in zip(rows, starts, strict=True)
    ]
