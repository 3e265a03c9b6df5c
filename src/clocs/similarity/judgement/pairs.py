"""Pairs of rows of the same patient, and of different ones: all of them, or as many as are wanted, drawn once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np

from clocs.core.seeds import generator
from clocs.metrics.ranking import Floats
from clocs.similarity.segments import Ints

Pairs = tuple[Ints, Ints]
"""(pairs,) twice: the rows on either side."""
MOST_PAIRS: Final = 100_000
"""Pairs of a kind that are measured. A share of one half is then known to 0.0016, and patients differ by more."""


def own_pairs(
    patient: Ints, *, apart: Ints | None = None, even: bool = False, most: int = MOST_PAIRS, seed: int = 0
) -> Pairs:
    """Two rows of the same patient each; of more than ``most``, so many drawn without repetition.

    ``apart``: (N,) rows of the same value, such as a recording, make no pair. ``even``: of each patient as many are
    drawn, or all that there are, so that nobody's long recording leaves no room for the others.
    """
    order = np.lexsort((np.zeros_like(patient) if apart is None else apart, patient)).astype(np.int64)
    start = _first_alike(patient[order])
    until = np.arange(len(order)) if apart is None else _first_alike(patient[order], apart[order])
    before = np.append(0, np.cumsum(until - start))  # a row makes pairs with its patient's rows above it
    total, random = int(before[-1]), generator(seed, "own pairs")
    if total <= most:
        chosen = np.arange(total)
    elif even:
        ends = np.append(before[np.unique(start)], total)
        quota = max(1, most // int(np.count_nonzero(np.diff(ends))))
        chosen = np.concatenate([begin + _drawn(end - begin, quota, random) for begin, end in pairwise(ends.tolist())])
    else:
        chosen = _drawn(total, most, random)
    row = np.searchsorted(before[1:], chosen, "right")
    return order[start[row] + chosen - before[row]], order[row]


def _drawn(total: int, most: int, random: np.random.Generator) -> Ints:
    """Places of so many, in order and each once; of more than ``most``, a draw."""
    return np.sort(random.choice(total, most, replace=False)) if total > most else np.arange(total)


def _first_alike(*columns: Ints) -> Ints:
    """(N,) of each row, the first of the rows up to it that are like it, and each other, in all columns."""
    changes = np.append(True, np.any([column[1:] != column[:-1] for column in columns], axis=0))[: len(columns[0])]
    return np.maximum.accumulate(np.where(changes, np.arange(len(changes)), 0))


def other_pairs(patient: Ints, *, most: int = MOST_PAIRS, seed: int = 0) -> Pairs:
    """Two rows of different patients each; of more than ``most``, so many drawn, each by itself."""
    rows = len(patient)
    if rows * (rows - 1) // 2 <= most:
        first, second = (side.astype(np.int64) for side in np.triu_indices(rows, 1))
        apart = patient[first] != patient[second]
        return first[apart], second[apart]
    if (patient == patient[0]).all():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    random, drawn = generator(seed, "other pairs"), np.empty((2, 0), np.int64)
    while drawn.shape[1] < most:
        more = random.integers(0, rows, (2, most))
        drawn = np.concatenate([drawn, more[:, patient[more[0]] != patient[more[1]]]], axis=1)
    return drawn[0, :most], drawn[1, :most]


def pair_weights(
    patient: Ints, own: Pairs, other: Pairs, *, even: bool = False
) -> tuple[int, Callable[[Floats], Floats]]:
    """How many patients there are, and: how often each is drawn -> what each pair weighs, own ones first.

    An own pair is drawn with its patient, another with both of its patients. ``even``: patients weigh the same, however
    many rows each has; else pairs do, so that a patient with many rows has most of them.
    """
    _, member, rows = np.unique(patient, return_inverse=True, return_counts=True)
    mine, (one, two) = member[own[0]], (member[side] for side in other)
    if not even:
        return len(rows), lambda times: np.concatenate([times[mine], times[one] * times[two]])
    pairs = np.bincount(mine, minlength=len(rows))[mine]
    return len(rows), lambda times: np.concatenate(
        [times[mine] / pairs, times[one] * times[two] / (rows[one] * rows[two])]
    )
