"""The quality gate: what is wrong with a recording, lead by lead, before it may enter a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.recording import Recording, missing_value
from clocs.signals.leads import COMBINATIONS

Reason = Literal["unreadable", "length", "short", "missing", "flat", "amplitude", "saturated", "identity"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""In the order in which they name a recording that is refused for several."""


@dataclass(frozen=True)
class Finding:
    """One fault: its reason, the lead it is in (empty: the whole recording), and the measured value."""

    reason: Reason
    lead: str
    detail: str


class GatePolicy(BaseModel):
    """What a recording must satisfy. A limit of None switches that check off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_seconds: float | None = Field(default=1.0, ge=0)
    match_header_length: bool = True
    max_missing: float | None = Field(default=0.0, ge=0, le=1)
    """Fraction of a lead's samples that may be missing."""
    min_span: float | None = Field(default=0.01, ge=0)
    """Peak to peak, mV; below, a lead is flat. Signals in adu: a constant lead is flat."""
    max_amplitude: float | None = Field(default=20.0, gt=0)
    """mV. The largest real beats stay under 10; no heart gives 20."""
    max_beyond: float = Field(default=0.01, ge=0, le=1)
    """Fraction of a lead's samples that may be beyond it: spikes are common, a wrong scale is not."""
    max_saturated_seconds: float | None = Field(default=0.2, gt=0)
    """Longest stay at a lead's own extreme, if that is beyond ``saturation_floor``."""
    saturation_floor: float = 2.0
    """mV."""
    max_identity_error: float | None = Field(default=0.5, gt=0)
    """Deviation from the lead equations, as a fraction of the limb leads' own size (both rms)."""


OFF = GatePolicy(
    min_seconds=None,
    match_header_length=False,
    max_missing=None,
    min_span=None,
    max_amplitude=None,
    max_saturated_seconds=None,
    max_identity_error=None,
)
"""Everything that can be read passes."""


def assess(recording: Recording, policy: GatePolicy) -> list[Finding]:
    """All faults of a recording under a policy; empty when it may be stored."""
    if policy == OFF:
        return []
    findings = _length(recording, policy)
    present = recording.digital != missing_value(recording.digital.dtype)
    for row, lead in enumerate(recording.leads):
        findings += _lead(recording, policy, row, lead, present[row])
    findings += _identities(recording, policy, present)
    return findings


def _length(recording: Recording, policy: GatePolicy) -> list[Finding]:
    found: list[Finding] = []
    declared = recording.provenance.declared_samples
    if policy.match_header_length and declared is not None and declared != recording.samples:
        found.append(Finding("length", "", f"{recording.samples} samples, header says {declared}"))
    if policy.min_seconds is not None and recording.seconds < policy.min_seconds:
        found.append(Finding("short", "", f"{recording.seconds:g} s, at least {policy.min_seconds:g} s needed"))
    return found


def _lead(
    recording: Recording, policy: GatePolicy, row: int, lead: str, present: npt.NDArray[np.bool_]
) -> list[Finding]:
    found: list[Finding] = []
    absent = len(present) - int(np.count_nonzero(present))
    if policy.max_missing is not None and absent > policy.max_missing * len(present):
        found.append(Finding("missing", lead, f"{absent} of {len(present)} samples"))
    values = recording.digital[row] if absent == 0 else recording.digital[row][present]
    if not len(values):
        return found
    low, high = int(values.min()), int(values.max())
    gain, zero = abs(float(recording.gain[row])), int(recording.baseline[row])
    in_mv = recording.unit == "mV"
    span = (high - low) / gain
    if policy.min_span is not None and (high == low or (in_mv and span < policy.min_span)):
        return [*found, Finding("flat", lead, f"{span:g} {recording.unit} peak to peak")]
    if not in_mv:
        return found
    extreme = high if high - zero > zero - low else low
    peak = abs(extreme - zero) / gain
    if policy.max_amplitude is not None and peak > policy.max_amplitude:
        beyond = float(np.mean(np.abs(values.astype(np.int64) - zero) > policy.max_amplitude * gain))
        if beyond > policy.max_beyond:
            found.append(Finding("amplitude", lead, f"{peak:.3g} mV; {beyond:.0%} beyond {policy.max_amplitude:g}"))
    if policy.max_saturated_seconds is not None and peak > policy.saturation_floor:
        stay = _longest_run(values == extreme) / recording.rate
        if stay > policy.max_saturated_seconds:
            found.append(Finding("saturated", lead, f"{stay:.3g} s at {peak:.3g} mV"))
    return found


def _identities(recording: Recording, policy: GatePolicy, present: npt.NDArray[np.bool_]) -> list[Finding]:
    """Einthoven and Goldberger, where a recording measured all the leads of an equation."""
    measured = [
        lead for lead in COMBINATIONS if lead in recording.leads and lead not in recording.provenance.derived_leads
    ]
    if policy.max_identity_error is None or not measured or not {"I", "II"} <= set(recording.leads):
        return []
    limbs = ("I", "II", *measured)
    rows = [recording.leads.index(lead) for lead in limbs]
    values = (recording.digital[rows] - recording.baseline[rows, None].astype(np.float64)) / recording.gain[rows, None]
    judged = present[rows].all(axis=0)
    if policy.max_amplitude is not None and recording.unit == "mV":  # a spike on all leads fits no equation
        judged &= (np.abs(values) <= policy.max_amplitude).all(axis=0)
    if not judged.any():
        return []
    volts = dict(zip(limbs, values[:, judged], strict=True))
    size = max(_rms(volts["I"]), _rms(volts["II"]))
    found = []
    for lead in measured:
        expected = sum(weight * volts[name] for name, weight in COMBINATIONS[lead].items())
        error = _rms(volts[lead] - expected) / size if size else 0.0
        if error > policy.max_identity_error:
            found.append(Finding("identity", lead, f"{error:.2f} of the limb leads' size off its equation"))
    return found


def _rms(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(values - values.mean()))))


def _longest_run(mask: npt.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))
