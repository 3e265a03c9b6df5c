"""From the embeddings of leads and frames to one vector a recording, and one for each of its leads.

A vector is the mean of unit-length embeddings, itself brought to unit length. The methods of this package train
directions alone (their losses take cosines), so the length of an embedding says nothing that was asked of it; left in,
it would let a few frames with long embeddings speak for the whole recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.errors import SignalError
from clocs.similarity.segments import Vectors, unit_length


@dataclass(frozen=True, eq=False)
class RecordingVectors:
    """A recording as one vector, and as one for each lead."""

    whole: Vectors
    """(E,), unit length."""
    leads: Vectors
    """(L, E), unit length, in the order asked for; zeros where a lead is absent."""
    present: npt.NDArray[np.bool_]
    """(L,)"""
    frames: int


def pool_recording(values: Vectors, lead: Sequence[str], leads: Sequence[str]) -> RecordingVectors:
    """(rows, E) embeddings ordered by time, then by lead (``lead`` names each row's), to the lead order ``leads``."""
    if not np.isfinite(values).all():
        raise SignalError("its embeddings are not all finite numbers")
    width = len(dict.fromkeys(lead))
    by_lead = unit_length(values).reshape(-1, width, values.shape[1]).mean(axis=0, dtype=np.float64)
    whole = unit_length(by_lead.mean(axis=0, keepdims=True))[0]
    if not whole.any():
        raise SignalError("its embedding is zero and points nowhere")
    places = [leads.index(name) for name in lead[:width]]
    held = np.zeros((len(leads), values.shape[1]), np.float32)
    held[places] = unit_length(by_lead)
    return RecordingVectors(whole, held, np.asarray(held.any(axis=1)), len(values) // width)
