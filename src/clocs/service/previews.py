"""A recording as the viewer draws it: whole numbers, each lead to its own scale."""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from clocs.core.recording import Recording

MICROVOLT: Final = 0.001
"""Millivolt a step."""
MISSING: Final = -32768
HIGHEST: Final = 32767


def preview_json(recording: Recording, seconds: float) -> bytes:
    """The body of a preview; ``seconds``: of the whole recording, of which this may be the beginning.

    Leads are written one by one, so that no single call keeps other threads waiting.
    """
    derived = recording.provenance.derived_leads
    about = {
        "format": recording.provenance.format,
        "rate": recording.rate,
        "seconds": round(seconds, 3),
        "shown_seconds": round(recording.seconds, 3),
        "unit": recording.unit,
        "age": recording.age,
        "sex": recording.sex,
        "labels": list(recording.labels),
        "leads": [{"name": lead, "derived": lead in derived} for lead in recording.leads],
        "notes": list(recording.provenance.notes),
    }
    scales, parts = {}, []
    for lead, row in zip(recording.leads, recording.physical(), strict=True):
        scales[lead] = _scale(float(np.abs(np.nan_to_num(row)).max(initial=0)), recording.unit)
        steps = np.rint(row / scales[lead])
        steps = np.where(np.isfinite(steps), np.clip(steps, -HIGHEST, HIGHEST), MISSING).astype(np.int32)
        parts.append(f"{json.dumps(lead)}:[{','.join(map(str, steps.tolist()))}]")
    signal = f'{{"scale":{json.dumps(scales)},"missing":{MISSING},"samples":{{{",".join(parts)}}}}}'
    return f'{json.dumps(about)[:-1]},"signal":{signal}}}'.encode()


def _scale(peak: float, unit: str) -> float:
    """A microvolt, or one step of a recording without a gain; more only where values would not fit."""
    finest = MICROVOLT if unit == "mV" else 1.0
    return finest if peak <= HIGHEST * finest else float(f"{peak / HIGHEST:.6g}") * 1.000001
