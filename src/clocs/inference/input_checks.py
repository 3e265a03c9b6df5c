"""Checks of a recording before it is embedded: findings of the quality gate become errors with advice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from clocs.core.errors import SignalError
from clocs.core.recording import Recording
from clocs.signals.beats import MIN_SAMPLING_RATE
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF, REASONS, Finding, GatePolicy, Reason, assess, suspicious_leads

GATE: Final = GatePolicy()
"""Checks that a recording must pass."""
FLATNESS_CHECK: Final = GATE_OFF.model_copy(update={"min_span": GATE.min_span})
BEAT_CHECKS: Final = GATE_OFF.model_copy(update={"check_sampling_rate": True, "check_electrodes": True})
"""Checks that only warn."""
LENGTH_CHECK: Final = GATE_OFF.model_copy(update={"match_header_length": True})

ADVICE: Final[dict[Reason, str]] = {
    "unreadable": "Get a complete copy of the file.",
    "length": "The file is shorter or longer than its header states. Get a complete copy.",
    "short": "Use a longer recording.",
    "missing": "Use a part without gaps, or leave the lead out.",
    "flat": "Check the unit: millivolt declared as microvolt look flat. Leave out a dead lead.",
    "amplitude": "Check the unit: microvolt declared as millivolt look like this.",
    "saturated": "Use a part without saturation, or leave the lead out.",
    "lead_equations": "Check the names of its leads: each limb lead is a sum of two others, and here it is not. Two "
    "leads may be exchanged.",
    "sampling_rate": "Check the sampling rate: the shape of the beats fits another one.",
    "electrodes": "Check the electrodes of the arms.",
}
"""Advice for users, by the reason of a finding."""
CODE_HINTS: Final[dict[Reason, str]] = {
    "missing": "pass a part as an array, or recording.select(...)",
    "flat": "recording.select(...)",
    "saturated": "pass a part as an array, or recording.select(...)",
}
"""Ways to follow the advice in Python."""


def recording_label(recording: Recording) -> str:
    """Return the name of a recording for a message."""
    return f"recording '{recording.record_id}'" if recording.record_id else "the recording"


def count_frames(recording: Recording, policy: FramePolicy) -> int:
    """Return the number of complete frames of a recording, for a policy with a sampling rate.

    Raises:
        SignalError: The sampling rate is too low, or the recording is shorter than a frame.
    """
    assert policy.sampling_rate is not None
    if not recording.sampling_rate >= MIN_SAMPLING_RATE:
        raise SignalError(
            f"{recording_label(recording)} has {recording.sampling_rate:g} samples a second, but a QRS complex needs "
            f"at least {MIN_SAMPLING_RATE:g}. Check that its sampling rate is in Hz."
        )
    num_frames = int(policy.num_frames(np.array([recording.num_samples]), np.array([recording.sampling_rate]))[0])
    if not num_frames:
        raise SignalError(
            f"{recording_label(recording)} lasts {recording.seconds:g} s, but the encoder takes frames of "
            f"{policy.num_samples / policy.sampling_rate:g} s ({policy.num_samples} samples at "
            f"{policy.sampling_rate:g} Hz). Frames are not padded: use a longer recording."
        )
    return num_frames


def check_signal_quality(recording: Recording, leads: Collection[str]) -> None:
    """Raise an error if the recording or one of these leads fails the quality gate.

    Any violation of the lead equations counts, whatever leads it concerns.
    """
    findings = assess(recording, GATE)
    _raise_for(recording, [item for item in findings if item.lead in ("", *leads) or item.reason == "lead_equations"])


def lead_faults(recording: Recording) -> dict[str, str]:
    """Return the leads that fail the quality gate, each with its first fault."""
    faults: dict[str, str] = {}
    for item in assess(recording, GATE):
        if item.lead in recording.leads and item.reason != "lead_equations":
            faults.setdefault(item.lead, f"{item.reason}: {item.detail}")
    return faults


def recording_faults(recording: Recording) -> list[str]:
    """Return the faults of a recording as a whole with advice, among them leads that contradict the lead equations."""
    findings = assess(recording, GATE)
    of_all = (item for item in findings if item.reason == "lead_equations" or item.lead not in recording.leads)
    return [_with_advice(item) for item in of_all]


def length_faults(recording: Recording) -> list[str]:
    """Return with advice whether the length of a recording differs from its header."""
    return [_with_advice(item) for item in assess(recording, LENGTH_CHECK) if item.reason == "length"]


def check_flat_frames(recording: Recording, policy: FramePolicy, num_frames: int) -> None:
    """Raise an error if a lead is flat for a frame. The gate sees only leads that are flat throughout."""
    assert policy.sampling_rate is not None
    hop, seconds = policy.hop_length(policy.sampling_rate), policy.num_samples / policy.sampling_rate
    assert hop is not None
    findings: list[Finding] = []
    for start in (np.arange(num_frames) * hop / policy.sampling_rate).tolist():
        begin, end = (round(time * recording.sampling_rate) for time in (start, start + seconds))
        part = replace(recording, digital=recording.digital[:, begin:end])
        flat = assess(part, FLATNESS_CHECK) if suspicious_leads(part, FLATNESS_CHECK) else []
        period = f"from {start:g} to {start + seconds:g} s"
        findings += [replace(item, detail=f"{item.detail} {period}") for item in flat]
    _raise_for(recording, findings)


def warnings_for(recording: Recording) -> tuple[str, ...]:
    """Return warnings about the sampling rate and the electrodes, judged by the beats of a recording."""
    return tuple(
        f"{f'lead {item.lead}' if item.lead else item.reason}: {item.detail}. {ADVICE[item.reason]}"
        for item in assess(recording, BEAT_CHECKS)
    )


def _with_advice(item: Finding) -> str:
    """Return a finding and what to do about it."""
    return f"{_named(item)}. {ADVICE[item.reason]}"


def _named(item: Finding) -> str:
    return f"{' '.join(filter(None, (item.lead, item.reason)))}: {item.detail}"


def _raise_for(recording: Recording, findings: list[Finding]) -> None:
    if not findings:
        return
    faults = "; ".join(map(_named, findings))
    first = min((item.reason for item in findings), key=REASONS.index)
    error = SignalError(f"{recording_label(recording)} is not embedded: {faults}. {ADVICE[first]}")
    raise error.with_code_hint(CODE_HINTS.get(first, ""))
