"""The quality gate: checks of recordings before they are stored or embedded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.recording import Recording, missing_value
from clocs.signals.beats import MIN_SAMPLING_RATE, BeatMeasurements, find_beats
from clocs.signals.lead_equations import equation_faults

Reason = Literal[
    "unreadable",
    "length",
    "short",
    "missing",
    "flat",
    "amplitude",
    "saturated",
    "lead_equations",
    "sampling_rate",
    "electrodes",
]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Reasons for rejecting a recording. The first that applies names the recording."""

SPIKE_FACTOR = 10.0
"""Largest span of a flat lead with spikes, in multiples of ``min_span``."""
MIN_BEAT_AGREEMENT, MAX_IRREGULARITY = 0.9, 0.15
"""Minimum agreement of beats for any check, and maximum irregularity for checks of their shape."""
WRONG_RATE_RATIOS = ((0.4, 0.6), (5 / 3, 2.5))
"""Ranges of measured over stated heart rate that result from half or twice the true sampling rate."""
SLOWED_BEATS, ACCELERATED_BEATS = (1.3, 0.065, 0.33), (0.6, 0.032, 0.23)
"""Interval in seconds, QRS width in seconds, and T delay over the square root of the interval. Beats with all three
above (below) have half (twice) the true sampling rate. No beats of 25,999 real recordings are beyond these limits."""
SWAPPED_ARMS = (-0.03, -0.2, -0.05)
"""Limits in mV of P, QRS and T in lead I. None of 17,471 real recordings is below all three."""
MIN_INTERVAL_FOR_P = 0.55
"""Minimum interval between beats in seconds. In faster rhythms, P and T overlap."""


@dataclass(frozen=True)
class Finding:
    """A fault of a recording."""

    reason: Reason
    """Reason for rejecting the recording."""
    lead: str
    """Lead with the fault; empty for the whole recording."""
    detail: str
    """Measured value as text."""


class GatePolicy(BaseModel):
    """Limits that recordings must satisfy to be stored. A limit of None disables the check.

    Example:
        >>> clocs.GatePolicy(min_seconds=5.0, max_missing=None).min_seconds
        5.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_seconds: float | None = Field(default=1.0, ge=0)
    """Minimum duration in seconds."""
    match_header_length: bool = True
    """True if the number of samples must equal the number in the file header."""
    max_missing: float | None = Field(default=0.0, ge=0, le=1)
    """Maximum fraction of missing samples of a lead."""
    min_span: float | None = Field(default=0.01, ge=0)
    """Minimum peak-to-peak amplitude of a lead in mV. Below it, a lead is flat. For leads up to ten times this value,
    spikes (``max_outlier_fraction`` of the samples) are ignored. In adu, only a constant lead is flat."""
    max_amplitude: float | None = Field(default=20.0, gt=0)
    """Maximum amplitude in mV. The largest real beats are below 10 mV."""
    max_outlier_fraction: float = Field(default=0.01, ge=0, le=1)
    """Maximum fraction of samples of a lead beyond ``max_amplitude``. It tolerates spikes but not a wrong scale."""
    max_saturated_seconds: float | None = Field(default=0.2, gt=0)
    """Maximum duration in seconds at the minimum or maximum of a lead, if it is beyond ``saturation_floor``."""
    saturation_floor: float = 2.0
    """Amplitude in mV above which a lead can be saturated."""
    max_lead_equation_error: float | None = Field(default=0.5, gt=0)
    """Maximum deviation from the lead equations, as a fraction of the amplitude of the limb leads (both RMS). None also
    disables the search for swapped leads."""
    check_sampling_rate: bool = False
    """Check the stated sampling rate against the shape and rate of the beats. Use it for files of unknown
    quality."""
    check_electrodes: bool = False
    """Check lead I for swapped arm electrodes."""


GATE_OFF = GatePolicy(
    min_seconds=None,
    match_header_length=False,
    max_missing=None,
    min_span=None,
    max_amplitude=None,
    max_saturated_seconds=None,
    max_lead_equation_error=None,
)
"""Policy without limits: every readable recording passes, unless all its leads are constant."""


def assess(recording: Recording, policy: GatePolicy) -> list[Finding]:
    """Check the quality of a recording.

    A recording with only constant leads never passes.

    Args:
        recording: The recording.
        policy: Limits of the checks.

    Returns:
        All faults of the recording, empty if it passes. Checks of beats run only if all others pass.

    Example:
        >>> recording = clocs.Recording(
        ...     digital=np.zeros((1, 5000), np.int16),
        ...     gain=np.array([1000.0]),
        ...     baseline=np.zeros(1, np.int32),
        ...     sampling_rate=500,
        ...     leads=("II",),
        ... )
        >>> [(finding.reason, finding.lead) for finding in clocs.assess(recording, clocs.GatePolicy())]
        [('flat', 'II')]
    """
    if policy == GATE_OFF:
        return _check_signal(recording)
    findings = _check_length(recording, policy)
    present = recording.digital != missing_value(recording.digital.dtype)
    for row in suspicious_leads(recording, policy):
        findings += _check_lead(recording, policy, row, recording.leads[row], present[row])
    findings += _check_lead_equations(recording, policy, present)
    return findings or _check_beats(recording, policy) or _check_signal(recording)


def _check_signal(recording: Recording) -> list[Finding]:
    """Check that at least one lead is not constant. No policy disables it: such a recording holds no ECG."""
    is_constant = bool((recording.digital == recording.digital[:, :1]).all())
    return [Finding("flat", "", "all leads are constant")] if is_constant else []


def _check_length(recording: Recording, policy: GatePolicy) -> list[Finding]:
    found: list[Finding] = []
    declared = recording.provenance.num_declared_samples
    if policy.match_header_length and declared is not None and declared != recording.num_samples:
        found.append(Finding("length", "", f"{recording.num_samples} samples, header says {declared}"))
    if policy.min_seconds is not None and recording.seconds < policy.min_seconds:
        found.append(Finding("short", "", f"{recording.seconds:g} s, at least {policy.min_seconds:g} s needed"))
    return found


def suspicious_leads(recording: Recording, policy: GatePolicy) -> list[int]:
    """Return the rows of leads that may have a fault, by their minimum and maximum. All others have none.

    Args:
        recording: The recording.
        policy: Limits of the checks. Those of the lead equations and of beats are not considered.
    """
    if not recording.num_samples:
        return list(range(len(recording.leads)))
    low, high = (pick(recording.digital, axis=1).astype(np.int64) for pick in (np.min, np.max))
    suspicious = low == missing_value(recording.digital.dtype)
    gain, zero = np.abs(recording.gain), recording.baseline.astype(np.int64)
    if policy.min_span is not None:
        suspicious |= (high == low) | ((high - low) / gain < SPIKE_FACTOR * policy.min_span)
    peak = np.maximum(high - zero, zero - low) / gain
    if policy.max_amplitude is not None:
        suspicious |= peak > policy.max_amplitude
    if policy.max_saturated_seconds is not None:
        suspicious |= peak > policy.saturation_floor
    return np.flatnonzero(suspicious).tolist()


def _check_lead(
    recording: Recording, policy: GatePolicy, row: int, lead: str, present: npt.NDArray[np.bool_]
) -> list[Finding]:
    found: list[Finding] = []
    num_missing = len(present) - int(np.count_nonzero(present))
    if policy.max_missing is not None and num_missing > policy.max_missing * len(present):
        found.append(Finding("missing", lead, f"{num_missing} of {len(present)} samples"))
    values = recording.digital[row] if num_missing == 0 else recording.digital[row][present]
    if not len(values):
        return found
    low, high = int(values.min()), int(values.max())
    gain, zero = abs(float(recording.gain[row])), int(recording.baseline[row])
    is_mv = recording.unit == "mV"
    span = (high - low) / gain
    if policy.min_span is not None and is_mv and span < SPIKE_FACTOR * policy.min_span:
        span = _inner_span(values, policy.max_outlier_fraction) / gain
    if policy.min_span is not None and (high == low or (is_mv and span < policy.min_span)):
        return [*found, Finding("flat", lead, f"{span:g} {recording.unit} peak to peak")]
    if not is_mv:
        return found
    peak = max(high - zero, zero - low) / gain
    if policy.max_amplitude is not None and peak > policy.max_amplitude:
        beyond = float(np.mean(np.abs(values.astype(np.int64) - zero) > policy.max_amplitude * gain))
        if beyond > policy.max_outlier_fraction:
            found.append(Finding("amplitude", lead, f"{peak:.3g} mV; {beyond:.0%} beyond {policy.max_amplitude:g}"))
    for extreme in (high, low):
        height = abs(extreme - zero) / gain
        if policy.max_saturated_seconds is not None and height > policy.saturation_floor:
            duration = _longest_run(values == extreme) / recording.sampling_rate
            if duration > policy.max_saturated_seconds:
                found.append(Finding("saturated", lead, f"{duration:.3g} s at {height:.3g} mV"))
    return found


def _check_lead_equations(recording: Recording, policy: GatePolicy, present: npt.NDArray[np.bool_]) -> list[Finding]:
    if policy.max_lead_equation_error is None:
        return []
    max_amplitude = policy.max_amplitude if recording.unit == "mV" else None
    faults = equation_faults(recording, present, policy.max_lead_equation_error, max_amplitude)
    return [Finding("lead_equations", lead, detail) for lead, detail in faults]


def _check_beats(recording: Recording, policy: GatePolicy) -> list[Finding]:
    """Check sampling rate and electrodes by the beats."""
    if policy.check_sampling_rate and recording.sampling_rate < MIN_SAMPLING_RATE:
        detail = f"{recording.sampling_rate:g} Hz, at least {MIN_SAMPLING_RATE:g} Hz needed"
        return [Finding("sampling_rate", "", detail)]
    beats = find_beats(recording) if policy.check_sampling_rate or policy.check_electrodes else None
    if beats is None or beats.agreement < MIN_BEAT_AGREEMENT:
        return []
    if policy.check_sampling_rate and (detail := _wrong_sampling_rate(beats, recording)):
        return [Finding("sampling_rate", "", detail)]
    is_regular = (
        recording.unit == "mV" and beats.irregularity < MAX_IRREGULARITY and beats.interval > MIN_INTERVAL_FOR_P
    )
    lead_one = np.array(beats.waves.get("I", (0.0, 0.0, 0.0)))
    if policy.check_electrodes and is_regular and (lead_one < SWAPPED_ARMS).all():
        detail = "P, QRS and T point down: arm electrodes swapped, leads inverted, or dextrocardia"
        return [Finding("electrodes", "I", detail)]
    return []


def _wrong_sampling_rate(beats: BeatMeasurements, recording: Recording) -> str:
    """Describe a sampling rate that is half or twice the true one. Return an empty text if it is plausible."""
    measured, stated = 60 / beats.interval, recording.stated_measurements.heart_rate
    description = f"{measured:.0f} beats per minute at {recording.sampling_rate:g} Hz"
    if stated:
        is_wrong = any(low < measured / stated < high for low, high in WRONG_RATE_RATIOS)
        return f"{description}, but the file states {stated:.0f}" if is_wrong else ""
    shape = np.array([beats.interval, beats.qrs_width, beats.t_delay / np.sqrt(beats.interval)])
    is_slowed, is_accelerated = bool((shape > SLOWED_BEATS).all()), bool((shape < ACCELERATED_BEATS).all())
    if beats.irregularity > MAX_IRREGULARITY or not (is_slowed or is_accelerated):
        return ""
    waves = f"QRS of {beats.qrs_width * 1e3:.0f} ms, T after {beats.t_delay * 1e3:.0f} ms"
    return f"{description}, {waves}: the true sampling rate seems to be {'twice' if is_slowed else 'half'} as high"


def _inner_span(values: npt.NDArray[np.int16 | np.int32], outlier_fraction: float) -> int:
    """Return the span in steps without a fraction of the values, half of them at each end."""
    skip = int(outlier_fraction * len(values) / 2)
    ordered = np.sort(values)
    return int(ordered[len(values) - 1 - skip]) - int(ordered[skip])


def _longest_run(mask: npt.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))
