"""Which frames a store holds under a policy, without listing them where arithmetic will do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.recording import missing_value
from clocs.signals.framing import UNNAMED_LEAD, FramePolicy
from clocs.signals.leads import LEAD_EQUATIONS, derivable_leads
from clocs.signals.resampling import source_window
from clocs.store.shard import Shard, ShardInfo

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """Each wanted lead as a weighted sum of up to two stored ones. All arrays are (leads,)."""

    leads: tuple[str, ...]
    first: Ints
    """-1: a recording lacks this lead."""
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
        leads = stored + derivable_leads(stored)
        orders.setdefault(frozenset(leads), leads)
        counts[frozenset(leads)] += count
    return orders[max(counts, key=lambda leads: (counts[leads], len(leads)))] if counts else ()


def recipe(stored: tuple[str, ...], policy: FramePolicy, all_leads: bool) -> Recipe | None:
    """Return how to get the policy's leads (empty: all there are); None where a recording gives no frame.

    Leads that cannot be had are left out, or, in frames of all leads that may lack some, kept with ``first`` -1.
    """
    derived, names = derivable_leads(stored), _named(stored, policy.unnamed_lead)
    known = set(names) | set(derived)
    wanted = policy.leads or names + derived
    there = tuple(lead for lead in wanted if lead in known)
    if not there:
        _refuse_unnamed(stored, policy, all_leads)
        return None
    if all_leads and there != wanted and not policy.allow_missing_leads:
        return None
    rows = []
    leads = wanted if all_leads else there
    for lead in leads:
        terms = {} if lead not in known else LEAD_EQUATIONS[lead] if lead not in names else {lead: 1.0}
        (first, weight), (second, other) = [*terms.items(), ("", 0.0), ("", 0.0)][:2]
        rows.append((names.index(first) if first else -1, weight, names.index(second) if second else -1, other))
    first_at, first_weight, second_at, second_weight = zip(*rows, strict=True)
    return Recipe(
        leads,
        np.array(first_at, np.int64),
        np.array(first_weight, np.float32),
        np.array(second_at, np.int64),
        np.array(second_weight, np.float32),
    )


def _named(stored: tuple[str, ...], unnamed_lead: str | None) -> tuple[str, ...]:
    """Return the stored leads, an unnamed one under the name that it is taken for unless another lead has that."""
    if unnamed_lead is None or unnamed_lead in (*stored, *derivable_leads(stored)):
        return stored
    return tuple(unnamed_lead if lead == UNNAMED_LEAD else lead for lead in stored)


def _refuse_unnamed(stored: tuple[str, ...], policy: FramePolicy, all_leads: bool) -> None:
    """Refuse a recording whose only usable lead is unnamed: which channel of a frame it belongs to is unknown."""
    if all_leads and UNNAMED_LEAD in stored and policy.unnamed_lead is None:
        raise ConfigError(
            f"Some recordings have an unnamed lead ('{UNNAMED_LEAD}') and none of the leads "
            f"{', '.join(policy.leads)}. Set "
            "unnamed_lead to the one that it is to be taken for, or leave these recordings out."
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
    lead_mask: npt.NDArray[np.bool_] | None = None
    """(items, leads) with leads that gaps or the policy take from single frames; None: as the recipe has them."""

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
    made = recipe(info.leads or (), policy, all_leads)
    frames = int(policy.num_frames(np.array([info.num_samples or 0]), np.array([info.sampling_rate or 1.0]))[0])
    if made is None or not frames:
        return None
    width = 1 if all_leads else len(made.leads)
    total = info.records * frames
    return Block(number, made, width, total * width, total, per_row=frames * width)


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
        made = recipe(leads, policy, all_leads) if len(members) else None
        if made is not None:
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
    frames = policy.num_frames(shard.num_samples[rows], shard.sampling_rate[rows])
    width = 1 if all_leads else len(made.leads)
    ends = np.cumsum(frames * width)
    total = int(ends[-1])
    alike = bool((frames == frames[0]).all())
    per_row, row_ends = (int(frames[0]) * width, None) if alike else (None, ends)
    block = Block(number, made, width, total, int(frames.sum()), rows=rows, per_row=per_row, row_ends=row_ends)
    by_label = policy.label_at == "start" and bool(classes)
    if not shard.info.missing and not by_label and not policy.excluded_leads:
        return block
    there = _there(block, shard, policy, all_leads)
    keep = there.any(axis=1) if policy.allow_missing_leads else there.all(axis=1)
    if by_label:
        keep &= _with_class(block, shard, policy, classes)
    listed = tuple(array[keep] for array in block.locate(np.arange(total)))
    pairs = np.unique(listed[0] * (int(frames.max(initial=0)) + 1) + listed[1])
    mask = there[keep] if all_leads and policy.allow_missing_leads else None
    left = (listed[0], listed[1], listed[2])
    return Block(number, made, width, int(keep.sum()), len(pairs), rows=rows, listed=left, lead_mask=mask)


def _there(block: Block, shard: Shard, policy: FramePolicy, all_leads: bool) -> npt.NDArray[np.bool_]:
    """(items, leads): which leads of an item are whole and not excluded; (items, 1) where each item is one lead."""
    rows, frames, leads = block.locate(np.arange(block.total))
    width = len(block.recipe.leads) if all_leads else 1
    there = np.broadcast_to(block.recipe.first >= 0 if all_leads else True, (block.total, width)).copy()
    if shard.info.missing:
        there &= _whole(block, shard, policy, rows, frames, leads[:, None] if not all_leads else None)
    if policy.excluded_leads:
        ids = {name: row for row, name in enumerate(shard.column("record_id").to_pylist())}
        for record_id, lead in policy.excluded_leads:
            if record_id in ids and lead in block.recipe.leads:
                place, hit = block.recipe.leads.index(lead), rows == ids[record_id]
                if all_leads:
                    there[hit, place] = False
                else:
                    there[hit & (leads == place)] = False
    return there


def _with_class(
    block: Block, shard: Shard, policy: FramePolicy, classes: dict[str, tuple[str, ...]]
) -> npt.NDArray[np.bool_]:
    """(items,): whose first sample lies in an episode that has a class."""
    rows, frames, _ = block.locate(np.arange(block.total))
    known = {label for labels in classes.values() for label in labels}
    labels = episode_labels(shard, rows, frame_starts(shard, policy, rows, frames))
    return np.array([label in known for label in labels], bool)


def _whole(
    block: Block, shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints, leads: Ints | None
) -> npt.NDArray[np.bool_]:
    """(items, leads) without a missing sample, looked up only in recordings that miss some.

    ``leads``: (items, 1) lead of each item; None: all of the recipe.
    """
    counts, starts = shard.lead_values("missing")
    suspect = np.add.reduceat(counts, starts[:-1]) > 0 if len(counts) else np.zeros(0, bool)
    every = np.arange(len(block.recipe.leads))
    keep = np.ones((len(rows), len(every) if leads is None else 1), bool)
    marker = missing_value(np.dtype(shard.info.dtype))
    items = np.flatnonzero(suspect[rows])
    begins, ends, _ = source_of(policy, frames[items], shard.num_samples[rows[items]], shard.sampling_rate[rows[items]])
    for item, begin, end in zip(items, begins, ends, strict=True):
        gapped = (shard.digital(int(rows[item]))[:, begin:end] == marker).any(axis=1)
        lost = np.append(gapped, False)  # -1: no such lead
        wanted = every if leads is None else leads[item]
        keep[item] = ~(lost[block.recipe.first[wanted]] | lost[block.recipe.second[wanted]])
    return keep


def source_of(
    policy: FramePolicy, frames: Ints, num_samples: Ints, rates: npt.NDArray[np.float64]
) -> tuple[Ints, Ints, Ints]:
    """Return the stretch of its recording that each frame is made of; what a filter reaches for included.

    Args:
        policy: How frames are cut.
        frames: Number of each frame in its recording, (N,).
        num_samples: Samples of each recording, (N,).
        rates: Hz of each recording, (N,).

    Returns:
        First sample, end, and how many samples of the new rate come before the frame begins, (N,) each.
    """
    first, end, before = np.empty_like(frames), np.empty_like(frames), np.zeros_like(frames)
    length = policy.num_segments * policy.num_samples
    for sampling_rate in np.unique(rates):
        at = np.flatnonzero(rates == sampling_rate)
        if policy.sampling_rate is not None and policy.sampling_rate != sampling_rate:
            made = source_window(
                frames[at] * length, length, num_samples[at], float(sampling_rate), policy.sampling_rate
            )
            first[at], end[at], before[at] = made
        else:
            window = policy.window_length(float(sampling_rate)) or num_samples[at]
            first[at], end[at] = frames[at] * window, (frames[at] + 1) * window
    return first, end, before


def frame_starts(shard: Shard, policy: FramePolicy, rows: Ints, frames: Ints) -> Ints:
    """First sample of each frame, in the recording's own samples."""
    windows = {
        float(sampling_rate): policy.window_length(float(sampling_rate)) or 0
        for sampling_rate in np.unique(shard.sampling_rate[rows])
    }
    return np.asarray(
        frames * np.array([windows[float(sampling_rate)] for sampling_rate in shard.sampling_rate[rows]], np.int64)
    )


def episode_labels(shard: Shard, rows: Ints, starts: Ints) -> list[str | None]:
    """The label of the episode that each (row, sample) lies in."""
    episodes = {int(row): shard.column("episodes")[int(row)].as_py() for row in np.unique(rows)}
    return [
        next((item["label"] for item in episodes[int(row)] if item["start"] <= start < item["end"]), None)
        for row, start in zip(rows, starts, strict=True)
    ]
