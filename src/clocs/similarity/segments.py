"""Embeddings of time segments, pooled over leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.metrics.pooling import pool

Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Segments:
    """S time segments, ordered by recording and then by time."""

    values: Vectors
    """Mean of the unit-length lead embeddings, scaled to unit length, shape (S, E)."""
    record: Ints
    """Recording of each segment, shape (S,)."""
    patient: Ints
    """Patient of each segment, shape (S,)."""

    def __len__(self) -> int:
        return len(self.values)


def segments_of(values: npt.NDArray[np.floating], record: Ints, patient: Ints, frame: Ints) -> Segments:
    """Pool the lead embeddings (N, E) of the same frame of the same recording; the other arguments have shape (N,)."""
    span = int(frame.max(initial=0)) + 1
    segment, means = pool(unit_length(values), record * span + frame)
    records, first = np.unique(record, return_index=True)
    owner = patient[first][np.searchsorted(records, segment // span)]
    return Segments(unit_length(means), segment // span, owner)


def unit_length(values: npt.NDArray[np.floating]) -> Vectors:
    """Scale the rows of (N, E) to unit length. Rows of zeros stay zero."""
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(length > 0, length, 1.0), np.float32)
