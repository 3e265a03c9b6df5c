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
from clocs.inference.preparation import ALL_LEADS, EncoderInput, PreparedFrames, split_by_lead
from clocs.similarity.segments import Vectors, unit_length


@dataclass(frozen=True, eq=False)
class RecordingVectors:
    """A recording as one vector, and as one for each lead."""

    vector: Vectors
    """(E,), unit length."""
    leads: Vectors
    """(L, E), unit length, in the order asked for; zeros where a lead is absent."""
    present: npt.NDArray[np.bool_]
    """(L,)"""
    frames: int
    num_leads: int
    """Leads of the recording that were embedded."""


def rows_to_embed(ready: PreparedFrames, wanted: EncoderInput) -> PreparedFrames:
    """Return the rows whose embeddings make a recording's vectors.

    For an encoder of several leads that was trained with lead dropout, these are its frames and, after them, each lead
    of each frame with all other leads masked. For others they are the prepared rows.
    """
    if not (wanted.all_leads and wanted.embeds_leads):
        return ready
    single = split_by_lead(ready, wanted)
    return PreparedFrames(
        frames=np.concatenate([ready.frames, single.frames]),
        lead_mask=np.concatenate([ready.lead_mask, single.lead_mask]),
        lead=ready.lead + single.lead,
        leads=ready.leads,
        start=np.concatenate([ready.start, single.start]),
        notes=ready.notes,
    )


def pool_recording(values: Vectors, rows: PreparedFrames, leads: Sequence[str]) -> RecordingVectors:
    """Pool the embeddings of a recording.

    Args:
        values: (rows, E), of the rows of :func:`rows_to_embed`.
        rows: Those rows.
        leads: Leads that get a vector of their own, in this order.

    Raises:
        SignalError: An embedding is not finite, or their mean is zero.
    """
    if not np.isfinite(values).all():
        raise SignalError("its embeddings are not all finite numbers")
    joint = rows.lead.count(ALL_LEADS)  # they come first
    width = len(rows.leads)
    unit = unit_length(values)
    single = unit[joint:].reshape(-1, width, values.shape[1])
    by_lead = single.mean(axis=0, dtype=np.float64) if len(single) else np.zeros((0, values.shape[1]))
    mean = unit[:joint].mean(axis=0, dtype=np.float64) if joint else by_lead.mean(axis=0)
    vector = unit_length(mean[None])[0]
    if not vector.any():
        raise SignalError("its embedding is zero and points nowhere")
    held = np.zeros((len(leads), values.shape[1]), np.float32)
    for lead, lead_vector in zip(rows.leads, unit_length(by_lead), strict=False):
        if lead in leads:
            held[leads.index(lead)] = lead_vector
    frames = joint or len(values) // width
    return RecordingVectors(vector, held, np.asarray(held.any(axis=1)), frames, width)
