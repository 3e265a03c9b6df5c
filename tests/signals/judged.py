"""Twelve leads with planted faults, and what the quality gate finds in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clocs.core.recording import Digital, Provenance, Recording
from clocs.datasets.synthetic import SYNTHETIC
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads
from clocs.signals.quality import GatePolicy, assess
from tests.conftest import make_recording

Change = Callable[[Digital], None]


def twelve(change: Change | None = None) -> Recording:
    """Twelve leads as if all were measured, with a change to the digital values (rows as in STANDARD)."""
    full = add_derived_leads(make_recording(leads=("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")))
    digital = full.digital.copy()
    if change is not None:
        change(digital)
    return replace(full, digital=digital, provenance=Provenance())


EVERYTHING = GatePolicy(check_sampling_rate=True, check_electrodes=True)


def found(recording: Recording, policy: GatePolicy = EVERYTHING) -> set[tuple[str, str]]:
    return {(finding.reason, finding.lead) for finding in assess(recording, policy)}


def row(lead: str) -> int:
    return STANDARD_LEADS.index(lead)


def put(lead: str, value: int, start: int, end: int) -> Change:
    def change(digital: Digital) -> None:
        digital[row(lead), start:end] = value

    return change


def swap(one: str, other: str) -> Change:
    def change(digital: Digital) -> None:
        digital[[row(one), row(other)]] = digital[[row(other), row(one)]]

    return change


def heart() -> Recording:
    """A made-up heart in sinus rhythm, 68 beats a minute, twelve leads at 500 Hz."""
    options = SYNTHETIC.options.model_validate({"num_records": 18, "seed": 32})
    nowhere: Any = None
    *_, entry = SYNTHETIC.entries(nowhere, options)
    made: Recording = SYNTHETIC.load(nowhere, entry, options)
    assert found(made) == set()
    return made


def arms_exchanged() -> Recording:
    made = heart()
    digital = made.digital.copy()
    order = [row(lead) for lead in ("I", "III", "II", "aVL", "aVR")]
    digital[:5] = digital[order]
    digital[0] *= -1
    return replace(made, digital=digital)
