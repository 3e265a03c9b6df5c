"""Pool rows of frames and leads to rows of recordings or patients."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Groups = npt.NDArray[np.int64]


def pool(values: npt.NDArray[np.floating], groups: Groups) -> tuple[Groups, npt.NDArray[np.float64]]:
    """Average the rows of each group.

    Args:
        values: Values of shape (N, K).
        groups: Group of each row, of shape (N,).

    Returns:
        The groups in ascending order, of shape (G,), and their means, of shape (G, K).
    """
    order, starts, unique = _sort_by_group(values, groups)
    sums = np.add.reduceat(values[order], starts, axis=0, dtype=np.float64)
    return unique, sums / np.diff(starts, append=len(values))[:, None]


def pool_truth(truth: npt.NDArray[np.bool_], groups: Groups) -> tuple[Groups, npt.NDArray[np.bool_]]:
    """Combine the labels of each group. A group has every class that any of its rows has.

    Args:
        truth: Labels of shape (N, K).
        groups: Group of each row, of shape (N,).

    Returns:
        The groups in ascending order, of shape (G,), and their labels, of shape (G, K).
    """
    order, starts, unique = _sort_by_group(truth, groups)
    return unique, np.logical_or.reduceat(truth[order], starts, axis=0)


def _sort_by_group(
    values: npt.NDArray[np.generic], groups: Groups
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Groups]:
    """Return an order of rows by group, the start of each group in it, and the groups."""
    if values.ndim != 2 or groups.shape != values.shape[:1]:
        raise ValueError(
            f"Expected values of shape (N, K) and groups of shape (N,), got {values.shape} and {groups.shape}."
        )
    order = np.argsort(groups, kind="stable")
    unique, starts = np.unique(groups[order], return_index=True)
    return order, starts, unique
