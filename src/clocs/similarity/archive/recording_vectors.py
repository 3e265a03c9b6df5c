"""Pooling of lead and frame embeddings to one vector per recording and one per lead.

A vector is the mean of unit-length embeddings, scaled to unit length. The losses of this package depend only on
cosines, so the length of an embedding carries no trained information. Without scaling, frames with long embeddings
would dominate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from clocs.core.errors import SignalError
from clocs.inference.preparation import ALL_LEADS, PreparedFrames, split_by_lead
from clocs.similarity.segments import Vectors, unit_length


@dataclass(frozen=True, eq=False)
class RecordingVectors:
    """Vectors of a recording and of its leads."""

    vector: Vectors
    """Vector of the recording, unit length, shape (E,)."""
    leads: Vectors
    """Vectors of the requested leads, unit length, shape (L, E); zeros if a lead is absent."""
    present: npt.NDArray[np.bool_]
    """Mask of the leads that the recording has, shape (L,)."""
    frames: int
    num_leads: int
    """Number of embedded leads of the recording."""


def rows_to_embed(ready: PreparedFrames) -> PreparedFrames:
    """Return the rows that are embedded for a recording's vectors.

    For a multi-lead encoder that was trained with lead dropout, these are its frames, followed by each lead of each
    frame with all other leads masked. For other encoders they are the prepared rows.
    """
    if not (ready.expected.all_leads and ready.expected.embeds_leads):
        return ready
    single = split_by_lead(ready)
    return replace(
        ready,
        frame=np.concatenate([ready.frame, single.frame]),
        lead_mask=np.concatenate([ready.lead_mask, single.lead_mask]),
        lead=ready.lead + single.lead,
        start=np.concatenate([ready.start, single.start]),
    )


def pool_recording(values: Vectors, rows: PreparedFrames, leads: Sequence[str]) -> RecordingVectors:
    """Pool the embeddings of a recording.

    Args:
        values: Embeddings of the rows of :func:`rows_to_embed`, shape (rows, E).
        rows: The embedded rows.
        leads: Leads that get their own vectors, in this order.

    Returns:
        Vectors of the recording and its leads.

    Raises:
        SignalError: An embedding is not finite, or their mean is zero.
    """
    if not np.isfinite(values).all():
        raise SignalError("The embeddings are not all finite.")
    joint = rows.lead.count(ALL_LEADS)  # rows of all leads come first
    width = len(rows.leads)
    unit = unit_length(values)
    single = unit[joint:].reshape(-1, width, values.shape[1])
    by_lead = single.mean(axis=0, dtype=np.float64) if len(single) else np.zeros((0, values.shape[1]))
    mean = unit[:joint].mean(axis=0, dtype=np.float64) if joint else by_lead.mean(axis=0)
    vector = unit_length(mean[None])[0]
    if not vector.any():
        raise SignalError("The mean embedding is zero and has no direction.")
    lead_vectors = np.zeros((len(leads), values.shape[1]), np.float32)
    for lead, lead_vector in zip(rows.leads, unit_length(by_lead), strict=False):
        if lead in leads:
            lead_vectors[leads.index(lead)] = lead_vector
    frames = joint or len(values) // width
    return RecordingVectors(vector, lead_vectors, np.asarray(lead_vectors.any(axis=1)), frames, width)
