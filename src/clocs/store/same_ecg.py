"""One ECG in several files: other formats, steps or stored leads, but the same recording.

``duplicates`` finds signals that are equal to a microvolt in all leads. An export to another format may round to
coarser steps and keep eight leads of twelve; here such files are found, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording, missing_value
from clocs.signals.leads import COMBINATIONS
from clocs.store.reader import StoreReader

BLOCKS: Final = 8
"""Stretches of a recording; the highest and lowest value of each are its features."""
FINE: Final = 20
"""Steps that a lead must span: with fewer, many ECGs would look alike."""
ROUNDING: Final = 1 + 1e-6
"""Times a step: by how much values may differ that are a step apart."""

Floats = npt.NDArray[np.float64]
_Form = tuple[float, int, str, str]
"""Rate, samples, unit, and the lead that features are taken from."""


def same_ecg_groups(store: StoreReader) -> list[npt.NDArray[np.int64]]:
    """Numbers of the recordings of each group, groups in order of their first member.

    Two recordings are the same ECG if they have the same rate and length and differ, in every lead that both files
    hold and at every sample, by no more than the coarser file's step. 150 bytes of memory a recording.
    """
    parents = np.arange(len(store))
    for numbers, features, steps in _by_form(store):
        for one, other in _near(features, steps):
            first, second = int(numbers[one]), int(numbers[other])
            earlier, later = sorted((_root(parents, first), _root(parents, second)))
            if earlier != later and _agree(_taken(store, first), _taken(store, second)):
                parents[later] = earlier
    roots = np.array([_root(parents, number) for number in range(len(store))], np.int64)
    _, inverse, counts = np.unique(roots, return_inverse=True, return_counts=True)
    return [np.flatnonzero(inverse == group) for group in np.flatnonzero(counts > 1)]


def _near(features: Floats, steps: Floats) -> Iterator[tuple[int, int]]:
    """Pairs whose features differ by no more than the coarser one's step.

    Each is looked for around the coarser one, at its own step: fine ones are not compared with each other because a
    coarse one is among them.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(features)
    rank = np.argsort(np.argsort(steps, kind="stable"))
    for one, (place, step) in enumerate(zip(features, steps, strict=True)):
        near = np.array(tree.query_ball_point(place, step * ROUNDING, p=np.inf))
        yield from ((one, int(other)) for other in near[rank[near] < rank[one]])


def _by_form(store: StoreReader) -> Iterator[tuple[npt.NDArray[np.int64], Floats, Floats]]:
    """Of recordings of one form: their numbers, features (recordings, 2 x blocks) and steps, both in its unit."""
    found: dict[_Form, list[tuple[int, Floats, float]]] = defaultdict(list)
    for number in range(len(store)):
        recording = _taken(store, number)
        lead = next((name for name in ("II", "I") if name in recording.leads), min(recording.leads))
        row = recording.leads.index(lead)
        step = _step(recording, row)
        values = _values(recording, row)
        if len(values) < BLOCKS or np.isnan(values).all() or not np.nanmax(values) - np.nanmin(values) >= FINE * step:
            continue
        blocks = np.array_split(np.nan_to_num(values), BLOCKS)
        features = np.array([*(block.max() for block in blocks), *(block.min() for block in blocks)])
        found[(round(recording.rate, 3), recording.samples, recording.unit, lead)].append((number, features, step))
    for rows in found.values():
        if len(rows) > 1:
            yield (
                np.array([number for number, _, _ in rows]),
                np.stack([features for _, features, _ in rows]),
                np.array([step for _, _, step in rows]),
            )


def _taken(store: StoreReader, number: int) -> Recording:
    shard, row = store.locate(number)
    return store.shard(shard).recording(row)


def _step(recording: Recording, row: int) -> float:
    return 1 / abs(float(recording.gain[row]))


def _agree(one: Recording, other: Recording) -> bool:
    shared = [lead for lead in one.leads if lead in other.leads]
    if {"I", "II"} <= set(shared):
        shared = [lead for lead in shared if lead not in COMBINATIONS]
    smaller = min((one, other), key=lambda recording: len(recording.leads))
    needed = [lead for lead in smaller.leads if lead not in COMBINATIONS]
    return set(needed) <= set(shared) and all(_equal(one, other, lead) for lead in shared)


def _equal(one: Recording, other: Recording, lead: str) -> bool:
    rows = [recording.leads.index(lead) for recording in (one, other)]
    step = max(_step(recording, row) for recording, row in zip((one, other), rows, strict=True))
    values = [_values(recording, row) for recording, row in zip((one, other), rows, strict=True)]
    known = ~np.isnan(values[0]) & ~np.isnan(values[1])
    return bool(known.any() and (np.abs(values[0] - values[1])[known] <= step * ROUNDING).all())


def _values(recording: Recording, row: int) -> Floats:
    digital = recording.digital[row]
    values = (digital - float(recording.baseline[row])) / float(recording.gain[row])
    values[digital == missing_value(digital.dtype)] = np.nan
    return np.asarray(values, np.float64)


def _root(parents: npt.NDArray[np.int64], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = int(parents[number])
    return number
