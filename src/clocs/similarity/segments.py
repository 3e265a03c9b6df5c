"""Segments: stretches of time of a recording, each one vector for all of its leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.metrics.pooling import pool

Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Segments:
    """S segments, ordered by recording, then by time."""

    values: Vectors
    """(S, E), the mean of the leads' embeddings, these and the mean of unit length."""
    record: Ints
    """(S,)"""
    patient: Ints
    """(S,)"""

    def __len__(self) -> int:
        return len(self.values)


def segments_of(values: npt.NDArray[np.floating], record: Ints, patient: Ints, frame: Ints) -> Segments:
    """Pool rows of single leads, (N, E) with (N,) each, that are the same stretch of time of the same recording."""
    span = int(frame.max(initial=0)) + 1
    stretch, means = pool(unit_length(values), record * span + frame)
    records, first = np.unique(record, return_index=True)
    owner = patient[first][np.searchsorted(records, stretch // span)]
    return Segments(unit_length(means), stretch // span, owner)


def unit_length(values: npt.NDArray[np.floating]) -> Vectors:
    """Rows (N, E) divided by their lengths, so that a product is a cosine. A row of zeros stays one: alike to none."""
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(length > 0, length, 1.0), np.float32)
