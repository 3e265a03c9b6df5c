"""Near duplicates: recordings of the same ECG with other steps or fewer leads, as exports to another format make them.

Candidates are found by features of one lead, then compared sample by sample.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording, missing_value
from clocs.signals.leads import LEAD_EQUATIONS

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_SignalForm = tuple[float, int, str, str]
"""Sampling rate, number of samples, unit, and the lead of the features."""

NUM_STRETCHES: Final = 8
"""Number of stretches of a recording. The maximum and minimum of each are its features."""
MIN_STEPS: Final = 20
"""Minimum range of a lead in steps. With fewer steps, different ECGs would match."""
STEP_TOLERANCE: Final = 1 + 1e-6
"""Largest difference of equal values, as a multiple of the coarser step."""


def near_duplicate_groups(store: StoreReader) -> list[Ints]:
    """Return the indices of recordings of the same ECG, one array per group, ordered by first member.

    Two recordings are the same ECG if they have the same sampling rate and length, and differ by at most the coarser
    step at every sample of every shared lead. It needs 150 bytes of memory per recording.
    """
    parents = np.arange(len(store))
    for numbers, features, steps in _features_by_form(store):
        for one, other in _near_pairs(features, steps):
            first, second = int(numbers[one]), int(numbers[other])
            earlier, later = sorted((_find_root(parents, first), _find_root(parents, second)))
            if earlier != later and _is_same_ecg(_recording(store, first), _recording(store, second)):
                parents[later] = earlier
    roots = np.array([_find_root(parents, number) for number in range(len(store))], np.int64)
    _, inverse, counts = np.unique(roots, return_inverse=True, return_counts=True)
    return [np.flatnonzero(inverse == group) for group in np.flatnonzero(counts > 1)]


def _near_pairs(features: Floats, steps: Floats) -> Iterator[tuple[int, int]]:
    """Iterate over pairs of recordings with features that differ by at most the coarser step.

    The search is around the coarser recording, so that fine recordings are not compared at a coarse step.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(features)
    rank = np.argsort(np.argsort(steps, kind="stable"))
    for one, (point, step) in enumerate(zip(features, steps, strict=True)):
        near = np.array(tree.query_ball_point(point, step * STEP_TOLERANCE, p=np.inf))
        yield from ((one, int(other)) for other in near[rank[near] < rank[one]])


def _features_by_form(store: StoreReader) -> Iterator[tuple[npt.NDArray[np.int64], Floats, Floats]]:
    """Iterate over indices, features (recordings, 2 x stretches) and steps of recordings with the same form."""
    by_form: dict[_SignalForm, list[tuple[int, Floats, float]]] = defaultdict(list)
    for number in range(len(store)):
        recording = _recording(store, number)
        lead = next((name for name in ("II", "I") if name in recording.leads), min(recording.leads))
        row = recording.leads.index(lead)
        step = _step(recording, row)
        values = _values(recording, row)
        if (
            len(values) < NUM_STRETCHES
            or np.isnan(values).all()
            or not np.nanmax(values) - np.nanmin(values) >= MIN_STEPS * step
        ):
            continue
        stretches = np.array_split(np.nan_to_num(values), NUM_STRETCHES)
        features = np.array([*(part.max() for part in stretches), *(part.min() for part in stretches)])
        by_form[(round(recording.sampling_rate, 3), recording.num_samples, recording.unit, lead)].append(
            (number, features, step)
        )
    for rows in by_form.values():
        if len(rows) > 1:
            yield (
                np.array([number for number, _, _ in rows]),
                np.stack([features for _, features, _ in rows]),
                np.array([step for _, _, step in rows]),
            )


def _recording(store: StoreReader, number: int) -> Recording:
    shard, row = store.locate(number)
    return store.shard(shard).recording(row)


def _step(recording: Recording, row: int) -> float:
    return 1 / abs(float(recording.gain[row]))


def _is_same_ecg(one: Recording, other: Recording) -> bool:
    shared = [lead for lead in one.leads if lead in other.leads]
    if {"I", "II"} <= set(shared):
        shared = [lead for lead in shared if lead not in LEAD_EQUATIONS]
    smaller = min((one, other), key=lambda recording: len(recording.leads))
    needed = [lead for lead in smaller.leads if lead not in LEAD_EQUATIONS]
    return set(needed) <= set(shared) and all(_lead_matches(one, other, lead) for lead in shared)


def _lead_matches(one: Recording, other: Recording, lead: str) -> bool:
    rows = [recording.leads.index(lead) for recording in (one, other)]
    step = max(_step(recording, row) for recording, row in zip((one, other), rows, strict=True))
    values = [_values(recording, row) for recording, row in zip((one, other), rows, strict=True)]
    known = ~np.isnan(values[0]) & ~np.isnan(values[1])
    return bool(known.any() and (np.abs(values[0] - values[1])[known] <= step * STEP_TOLERANCE).all())


def _values(recording: Recording, row: int) -> Floats:
    digital = recording.digital[row]
    values = (digital - float(recording.baseline[row])) / float(recording.gain[row])
    values[digital == missing_value(digital.dtype)] = np.nan
    return np.asarray(values, np.float64)


def _find_root(parents: npt.NDArray[np.int64], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = int(parents[number])
    return number
