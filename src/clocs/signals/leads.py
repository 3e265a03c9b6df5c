"""Lead names, and the leads that follow from I and II."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import LeadError
from clocs.core.recording import Recording, missing_value, quantize, to_int32

STANDARD_LEADS: Final = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
"""The twelve leads, in the order every 12-lead print-out has."""

LEAD_EQUATIONS: Final[dict[str, dict[str, float]]] = {
    "III": {"II": 1.0, "I": -1.0},
    "aVR": {"I": -0.5, "II": -0.5},
    "aVL": {"I": 1.0, "II": -0.5},
    "aVF": {"II": 1.0, "I": -0.5},
}
"""Einthoven's and Goldberger's equations: a lead as a weighted sum of I and II."""

_BY_LOWER = {lead.lower(): lead for lead in STANDARD_LEADS}


def canonical_lead(name: str) -> str:
    """The standard spelling of a lead name (``AVR`` -> ``aVR``); other names keep theirs."""
    plain = " ".join(name.split())
    short = plain.lower().removeprefix("lead ").removeprefix("ecg lead ")
    return _BY_LOWER.get(short, plain)


def derivable_leads(leads: tuple[str, ...]) -> tuple[str, ...]:
    """Leads that a recording lacks and its I and II give."""
    if not {"I", "II"} <= set(leads):
        return ()
    return tuple(lead for lead in LEAD_EQUATIONS if lead not in leads)


def computed_leads(named: Iterable[str], leads: tuple[str, ...]) -> tuple[str, ...]:
    """Leads that a file says were computed from I and II; its own where those are not there to compute them again."""
    said = {canonical_lead(lead) for lead in named} & set(leads)
    return tuple(lead for lead in LEAD_EQUATIONS if lead in said) if {"I", "II"} <= set(leads) else ()


def add_derived_leads(recording: Recording) -> Recording:
    """Add the derivable leads, in exact integer arithmetic, and say so in the provenance."""
    new = derivable_leads(recording.leads)
    if not new:
        return recording
    pair = recording.select(("I", "II"))
    try:
        gains, rows = zip(*(_combine(pair, LEAD_EQUATIONS[lead]) for lead in new), strict=True)
    except ValueError as error:
        raise LeadError(
            f"recording '{recording.record_id}': leads cannot be derived from I and II: {error}. "
            "Read it with derive_leads=False."
        ) from error
    wide = any(row.dtype == np.int32 for row in rows) or recording.digital.dtype == np.int32
    blocks = [recording.digital, *(row[None] for row in rows)]
    digital = np.concatenate([to_int32(block) for block in blocks] if wide else blocks)
    full = replace(
        recording,
        digital=digital,
        gain=np.concatenate([recording.gain, gains]),
        baseline=np.concatenate([recording.baseline, np.zeros(len(new), np.int32)]),
        leads=recording.leads + new,
        provenance=replace(
            recording.provenance,
            derived_leads=tuple(lead for lead in LEAD_EQUATIONS if lead in (*recording.provenance.derived_leads, *new)),
        ),
    )
    return full.select(_standard_first(full.leads))


def drop_derived_leads(recording: Recording) -> Recording:
    """Just the leads that the file held: what a store keeps, since the others follow from them."""
    if not recording.provenance.derived_leads:
        return recording
    held = tuple(lead for lead in recording.leads if lead not in recording.provenance.derived_leads)
    return replace(recording.select(held), provenance=replace(recording.provenance, derived_leads=()))


def _combine(pair: Recording, weights: dict[str, float]) -> tuple[float, npt.NDArray[np.int16 | np.int32]]:
    """Gain and digital values of a weighted sum: halves become whole steps of a doubled gain."""
    weight = np.array([weights[lead] for lead in pair.leads])
    absent = (pair.digital == missing_value(pair.digital.dtype)).any(axis=0)
    if pair.gain[0] != pair.gain[1]:
        values = weight @ ((pair.digital - pair.baseline[:, None].astype(np.float64)) / pair.gain[:, None])
        gain = 2.0 * float(np.abs(pair.gain).max())
        return gain, quantize(np.where(absent, np.nan, values), gain)
    factor = 1 if np.all(weight == np.rint(weight)) else 2
    steps = (weight * factor).astype(np.int64) @ (pair.digital.astype(np.int64) - pair.baseline[:, None])
    return factor * float(pair.gain[0]), quantize(np.where(absent, np.nan, steps), 1.0)


def _standard_first(leads: tuple[str, ...]) -> tuple[str, ...]:
    known = tuple(lead for lead in STANDARD_LEADS if lead in leads)
    return known + tuple(lead for lead in leads if lead not in STANDARD_LEADS)
