"""Pairs of rows of the same patient, and of different ones: all of them, or as many as are wanted, drawn once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from clocs.core.seeds import generator
from clocs.metrics.ranking import Floats
from clocs.similarity.segments import Ints

Pairs = tuple[Ints, Ints]
"""(pairs,) twice: the rows on either side."""
MOST_PAIRS: Final = 100_000
"""Pairs of a kind that are measured. A share of one half is then known to 0.0016, and patients differ by more."""


def own_pairs(patient: Ints, *, most: int = MOST_PAIRS, seed: int = 0) -> Pairs:
    """Two rows of the same patient each; of more than ``most``, so many drawn without repetition."""
    order = np.argsort(patient, kind="stable").astype(np.int64)
    _, start, count = np.unique(patient[order], return_index=True, return_counts=True)
    ends = np.cumsum(count * (count - 1) // 2)
    total = int(ends[-1]) if len(ends) else 0
    if total > most:
        chosen = np.sort(generator(seed, "own pairs").choice(total, most, replace=False))
    else:
        chosen = np.arange(total)
    group = np.searchsorted(ends, chosen, "right")
    rest = chosen - np.append(0, ends)[group]
    high = _triangle_row(rest)
    low = rest - high * (high - 1) // 2
    return order[start[group] + low], order[start[group] + high]


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


def _triangle_row(place: Ints) -> Ints:
    """The row of each place of a lower triangle without its diagonal, counted row by row: 0 is (1, 0), 1 is (2, 0)."""
    row = ((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
    row -= row * (row - 1) // 2 > place  # the root may have been rounded up
    return np.asarray(row + (row * (row + 1) // 2 <= place))
