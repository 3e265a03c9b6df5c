"""From frames and leads to recordings and patients: one row for all rows of a group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Groups = npt.NDArray[np.int64]


def pool(values: npt.NDArray[np.floating], groups: Groups) -> tuple[Groups, npt.NDArray[np.float64]]:
    """Mean of the rows (N, K) of each group number (N,): the numbers in order (G,), and the means (G, K)."""
    order, starts, unique = _gather(values, groups)
    sums = np.add.reduceat(values[order], starts, axis=0, dtype=np.float64)
    return unique, sums / np.diff(starts, append=len(values))[:, None]


def pool_truth(truth: npt.NDArray[np.bool_], groups: Groups) -> tuple[Groups, npt.NDArray[np.bool_]]:
    """As ``pool``, for truth (N, K): a group has each class that any of its rows has."""
    order, starts, unique = _gather(truth, groups)
    return unique, np.logical_or.reduceat(truth[order], starts, axis=0)


def _gather(
    values: npt.NDArray[np.generic], groups: Groups
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Groups]:
    """An order that puts the rows of a group side by side, where each group starts in it, and their numbers."""
    if values.ndim != 2 or groups.shape != values.shape[:1]:
        raise ValueError(f"needs values (N, K) and groups (N,), not {values.shape} and {groups.shape}")
    order = np.argsort(groups, kind="stable")
    unique, starts = np.unique(groups[order], return_index=True)
    return order, starts, unique
