"""Recordings with faults for tests of the quality gate."""

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


def twelve_leads(change: Change | None = None) -> Recording:
    """Return twelve measured leads, with a change of the digital values (rows as in ``STANDARD_LEADS``)."""
    recording = add_derived_leads(make_recording(leads=("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")))
    digital = recording.digital.copy()
    if change is not None:
        change(digital)
    return replace(recording, digital=digital, provenance=Provenance())


ALL_CHECKS = GatePolicy(check_sampling_rate=True, check_electrodes=True)


def faults(recording: Recording, policy: GatePolicy = ALL_CHECKS) -> set[tuple[str, str]]:
    """Return the reason and the lead of every finding."""
    return {(finding.reason, finding.lead) for finding in assess(recording, policy)}


def row(lead: str) -> int:
    return STANDARD_LEADS.index(lead)


def set_samples(lead: str, value: int, start: int, end: int) -> Change:
    def change(digital: Digital) -> None:
        digital[row(lead), start:end] = value

    return change


def swap_leads(one: str, other: str) -> Change:
    def change(digital: Digital) -> None:
        digital[[row(one), row(other)]] = digital[[row(other), row(one)]]

    return change


def sinus_rhythm() -> Recording:
    """Return a synthetic recording in sinus rhythm: 68 beats per minute, twelve leads at 500 Hz."""
    options = SYNTHETIC.options.model_validate({"num_records": 18, "seed": 32})
    source: Any = None
    *_, entry = SYNTHETIC.entries(source, options)
    recording: Recording = SYNTHETIC.load(source, entry, options)
    assert faults(recording) == set()
    return recording


def swapped_arms() -> Recording:
    """Return the sinus rhythm with swapped arm electrodes."""
    recording = sinus_rhythm()
    digital = recording.digital.copy()
    order = [row(lead) for lead in ("I", "III", "II", "aVL", "aVR")]
    digital[:5] = digital[order]
    digital[0] *= -1
    return replace(recording, digital=digital)
