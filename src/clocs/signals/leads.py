"""Names of leads, and leads that can be computed from I and II."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import LeadError
from clocs.core.recording import Recording, missing_value, quantize, to_int32

STANDARD_LEADS: Final = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
"""The twelve standard leads in their usual order."""
LEAD_SETS: Final = (STANDARD_LEADS, STANDARD_LEADS[:6], ("I",), ("II",))
"""Leads that ECGs commonly have: all twelve, the six limb leads, lead I (as a watch records it), lead II."""

LEAD_EQUATIONS: Final[dict[str, dict[str, float]]] = {
    "III": {"II": 1.0, "I": -1.0},
    "aVR": {"I": -0.5, "II": -0.5},
    "aVL": {"I": 1.0, "II": -0.5},
    "aVF": {"II": 1.0, "I": -0.5},
}
"""Einthoven's and Goldberger's equations: weights of I and II for each derived lead."""

_BY_LOWER = {lead.lower(): lead for lead in STANDARD_LEADS}


def canonical_lead(name: str) -> str:
    """Return the standard spelling of a lead name.

    Args:
        name: Name in a file.

    Returns:
        The standard name, or the name with single blanks if it is not a standard lead.

    Example:
        >>> canonical_lead("AVR"), canonical_lead("Lead II"), canonical_lead("MLII")
        ('aVR', 'II', 'MLII')
    """
    spaced = " ".join(name.split())
    short = spaced.lower().removeprefix("lead ").removeprefix("ecg lead ")
    return _BY_LOWER.get(short, spaced)


def derivable_leads(leads: tuple[str, ...]) -> tuple[str, ...]:
    """Return the leads that are missing and can be computed from I and II."""
    if not {"I", "II"} <= set(leads):
        return ()
    return tuple(lead for lead in LEAD_EQUATIONS if lead not in leads)


def available_leads(leads: tuple[str, ...]) -> tuple[str, ...]:
    """Return these leads and those that can be computed from them, standard leads first."""
    return _standard_first((*leads, *derivable_leads(leads)))


def computed_leads(declared: Iterable[str], leads: tuple[str, ...]) -> tuple[str, ...]:
    """Return the leads that a file declares as computed, if it has I and II to compute them again.

    Args:
        declared: Names of leads that the file declares as computed from I and II.
        leads: All leads of the file.

    Returns:
        Standard names of the computed leads. Without I and II, computed leads are treated as measured ones.
    """
    computed = {canonical_lead(lead) for lead in declared} & set(leads)
    return tuple(lead for lead in LEAD_EQUATIONS if lead in computed) if {"I", "II"} <= set(leads) else ()


def add_derived_leads(recording: Recording) -> Recording:
    """Add the leads that can be computed from I and II, in exact integer arithmetic.

    Args:
        recording: The recording.

    Returns:
        The recording with standard leads first. ``provenance.derived_leads`` lists the added leads.

    Raises:
        LeadError: The values of I and II are too large to be added.
    """
    new = derivable_leads(recording.leads)
    if not new:
        return recording
    pair = recording.select(("I", "II"))
    try:
        gains, rows = zip(*(_combine(pair, LEAD_EQUATIONS[lead]) for lead in new), strict=True)
    except ValueError as error:
        raise LeadError(
            f"Recording '{recording.record_id}': leads cannot be derived from I and II. {error} "
            "Read it with derive_leads=False."
        ) from error
    needs_int32 = any(row.dtype == np.int32 for row in rows) or recording.digital.dtype == np.int32
    blocks = [recording.digital, *(row[None] for row in rows)]
    digital = np.concatenate([to_int32(block) for block in blocks] if needs_int32 else blocks)
    extended = replace(
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
    return extended.select(_standard_first(extended.leads))


def drop_derived_leads(recording: Recording) -> Recording:
    """Remove the derived leads. A store keeps only the other leads, because the derived ones can be computed again."""
    if not recording.provenance.derived_leads:
        return recording
    measured = tuple(lead for lead in recording.leads if lead not in recording.provenance.derived_leads)
    return replace(recording.select(measured), provenance=replace(recording.provenance, derived_leads=()))


def _combine(pair: Recording, weights: dict[str, float]) -> tuple[float, npt.NDArray[np.int16 | np.int32]]:
    """Return gain and digital values of a weighted sum. Halves become integers by doubling the gain."""
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
    standard = tuple(lead for lead in STANDARD_LEADS if lead in leads)
    return standard + tuple(lead for lead in leads if lead not in STANDARD_LEADS)
