"""Features of recordings: statistics over the embeddings of overlapping frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.signals.resampling import Floats

Pooling = Literal["mean", "max", "min"]
POOLING: Final[tuple[Pooling, ...]] = ("mean", "max", "min")
"""Statistics over the frames of a recording that make its features."""
OVERLAP: Final = 0.5
"""Fraction of a frame that the next frame of a recording repeats."""


def pool_frames(values: Floats, record: npt.NDArray[np.int64], count: int, pooling: Sequence[Pooling]) -> Floats:
    """Return statistics over the frames of each recording.

    Args:
        values: Embeddings of frames (N, D), ordered by recording. NaN is left out.
        record: Index of each frame's recording, (N,), ascending.
        count: Number of recordings.
        pooling: Statistics, whose values are concatenated in this order.

    Returns:
        Features (count, statistics * D), NaN for recordings without a frame.

    Example:
        >>> values = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]], np.float32)
        >>> pool_frames(values, np.array([0, 0, 2]), 3, ("mean", "max"))
        array([[ 2.,  2.,  3.,  2.],
               [nan, nan, nan, nan],
               [ 5.,  6.,  5.,  6.]], dtype=float32)
    """
    present, starts = np.unique(record, return_index=True)
    pooled = np.full((count, len(pooling) * values.shape[1]), np.nan, np.float32)
    for number, statistic in enumerate(pooling):
        columns = slice(number * values.shape[1], (number + 1) * values.shape[1])
        if statistic == "mean":
            total = np.add.reduceat(np.nan_to_num(values), starts)
            known = np.add.reduceat((~np.isnan(values)).astype(np.float32), starts)
            pooled[present, columns] = np.where(known > 0, total / np.maximum(known, 1), np.float32(np.nan))
        else:
            pooled[present, columns] = (np.fmax if statistic == "max" else np.fmin).reduceat(values, starts)
    return pooled


class FeatureAverage:
    """Features of a recording of any length: the mean of those of its parts.

    The maximum of a feature over an hour is far from that over ten seconds, on which a classifier was fitted.

    Args:
        max_frames: Maximum number of frames of a part.

    Example:
        >>> average = FeatureAverage(max_frames=2)
        >>> average.add(np.array([[1.0], [3.0], [8.0]], np.float32))
        >>> average.num_parts, average.features
        (2, array([5. , 5.5, 4.5], dtype=float32))
    """

    def __init__(self, max_frames: int) -> None:
        self.max_frames = max_frames
        self.num_parts = 0
        """Number of parts."""
        self._total: Floats | float = 0.0

    def add(self, frames: Floats) -> None:
        """Add adjacent frames, divided into parts of nearly the same number.

        Args:
            frames: Embeddings of frames (N, E), ordered by time. Leads are concatenated.
        """
        count = -(-len(frames) // self.max_frames)
        part = np.arange(len(frames)) * count // len(frames)
        self._total = self._total + pool_frames(frames, part, count, POOLING).sum(axis=0)
        self.num_parts += count

    @property
    def features(self) -> Floats:
        """The features (D,)."""
        return np.asarray(self._total / np.float32(self.num_parts), np.float32)
