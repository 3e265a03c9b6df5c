"""Derivation of the leads of a frame from the stored leads of a recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.signals.framing import UNNAMED_LEAD, FramePolicy
from clocs.signals.leads import LEAD_EQUATIONS, derivable_leads
from clocs.store.windows import LeadPlan

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LeadDerivation:
    """Each lead of a frame as a weighted sum of up to two stored leads. All arrays are (leads,)."""

    leads: tuple[str, ...]
    """Names of the leads."""
    first: Ints
    """Index of the first stored lead; -1 if the recording lacks the lead."""
    first_weight: npt.NDArray[np.float32]
    """Weight of the first stored lead."""
    second: Ints
    """Index of the second stored lead; -1 if one is enough."""
    second_weight: npt.NDArray[np.float32]
    """Weight of the second stored lead."""


def most_common_leads(layouts: Iterable[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """Return the most common set of leads, including derived leads.

    Args:
        layouts: Stored leads with the number of recordings that have them.

    Returns:
        The leads in the order in which they first occur. Of equally common sets, the largest.
    """
    orders: dict[frozenset[str], tuple[str, ...]] = {}
    counts: Counter[frozenset[str]] = Counter()
    for stored, count in layouts:
        leads = stored + derivable_leads(stored)
        orders.setdefault(frozenset(leads), leads)
        counts[frozenset(leads)] += count
    return orders[max(counts, key=lambda leads: (counts[leads], len(leads)))] if counts else ()


def lead_derivation(stored: tuple[str, ...], policy: FramePolicy, all_leads: bool) -> LeadDerivation | None:
    """Return how the leads of a policy follow from the stored leads; None if the recording has no frame.

    Missing leads are left out. Frames of all leads that allow missing leads keep them with ``first`` -1.
    """
    derived, names = derivable_leads(stored), _assign_unnamed_lead(stored, policy.unnamed_lead)
    available = set(names) | set(derived)
    requested = policy.leads or names + derived
    present = tuple(lead for lead in requested if lead in available)
    if not present:
        _check_unnamed_lead(stored, policy, all_leads)
        return None
    if all_leads and present != requested and not policy.allow_missing_leads:
        return None
    rows = []
    leads = requested if all_leads else present
    for lead in leads:
        terms = {} if lead not in available else LEAD_EQUATIONS[lead] if lead not in names else {lead: 1.0}
        (first, first_factor), (second, second_factor) = [*terms.items(), ("", 0.0), ("", 0.0)][:2]
        indices = (names.index(first) if first else -1, names.index(second) if second else -1)
        rows.append((indices[0], first_factor, indices[1], second_factor))
    first_index, first_weight, second_index, second_weight = zip(*rows, strict=True)
    return LeadDerivation(
        leads,
        np.array(first_index, np.int64),
        np.array(first_weight, np.float32),
        np.array(second_index, np.int64),
        np.array(second_weight, np.float32),
    )


def _assign_unnamed_lead(stored: tuple[str, ...], unnamed_lead: str | None) -> tuple[str, ...]:
    """Return the stored leads, with the policy's name for an unnamed lead unless another lead has that name."""
    if unnamed_lead is None or unnamed_lead in (*stored, *derivable_leads(stored)):
        return stored
    return tuple(unnamed_lead if lead == UNNAMED_LEAD else lead for lead in stored)


def _check_unnamed_lead(stored: tuple[str, ...], policy: FramePolicy, all_leads: bool) -> None:
    """Raise an error if the only usable lead is unnamed, because its channel is unknown."""
    if all_leads and UNNAMED_LEAD in stored and policy.unnamed_lead is None:
        raise ConfigError(
            f"Some recordings have an unnamed lead ('{UNNAMED_LEAD}') but no lead of {', '.join(policy.leads)}. Set "
            "unnamed_lead to its name, or exclude these recordings."
        )


def lead_plan(derivation: LeadDerivation) -> LeadPlan:
    """Return a plan to compute all leads of a frame that reads each stored lead once.

    Stored leads that only serve to derive others are additional channels at the end.
    """
    width = len(derivation.leads)
    direct = np.flatnonzero((derivation.first >= 0) & (derivation.second < 0))
    channel = dict(zip(derivation.first[direct].tolist(), direct.tolist(), strict=True))
    derived = np.flatnonzero(derivation.second >= 0)
    pair = sorted({*derivation.first[derived].tolist(), *derivation.second[derived].tolist()})
    for lead in pair:
        channel.setdefault(lead, width + len(channel) - len(direct))
    pair.sort(key=channel.__getitem__)
    weights = np.zeros((len(derived), len(pair)), np.float32)
    for row, at in enumerate(derived):
        weights[row, pair.index(derivation.first[at])] = derivation.first_weight[at]
        weights[row, pair.index(derivation.second[at])] = derivation.second_weight[at]
    channels = np.array(list(channel.values()), np.int64)
    breaks = [0, *(np.flatnonzero(np.diff(channels) != 1) + 1).tolist(), len(channels)]
    runs = ((slice(a, b), _as_slice(channels[a:b])) for a, b in pairwise(breaks) if b > a)
    return LeadPlan(
        width=width,
        channels=width + len(channel) - len(direct),
        stored=np.array(list(channel), np.int64),
        runs=tuple(runs),
        pair=_as_slice(np.array([channel[lead] for lead in pair], np.int64)),
        weights=weights,
        sums=_as_slice(derived) if (np.diff(derived) == 1).all() else derived,
        missing=tuple(np.flatnonzero(derivation.first < 0).tolist()),
    )


def _as_slice(channels: Ints) -> slice:
    """Return evenly spaced channels as a slice, so that they are views."""
    if not len(channels):
        return slice(0, 0)
    step = int(channels[1] - channels[0]) if len(channels) > 1 else 1
    return slice(int(channels[0]), int(channels[-1]) + 1, step)
