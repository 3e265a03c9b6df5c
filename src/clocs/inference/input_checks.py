"""What an encoder must not be given: the quality gate's findings as an error that says what to do."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from clocs.core.errors import SignalError
from clocs.core.recording import Recording
from clocs.signals.beats import MIN_SAMPLING_RATE
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF, REASONS, Finding, GatePolicy, Reason, assess

GATE: Final = GatePolicy()
FLAT_ONLY: Final = GATE_OFF.model_copy(update={"min_span": GATE.min_span})
BY_BEATS: Final = GATE_OFF.model_copy(update={"check_sampling_rate": True, "check_electrodes": True})

ADVICE: Final[dict[Reason, str]] = {
    "unreadable": "Get a whole copy of the file.",
    "length": "Its file has another length than the header says: get a whole copy.",
    "short": "Use a longer recording.",
    "missing": "Use a part without gaps, or leave the lead out.",
    "flat": "Check the unit: millivolt declared as microvolt look flat. Leave out a dead lead.",
    "amplitude": "Check the unit: microvolt declared as millivolt look like this.",
    "saturated": "Use a part without this, or leave the lead out.",
    "lead_equations": "Check the names of its leads: each limb lead follows from two others, and here it does not, "
    "as if two "
    "leads were exchanged.",
    "sampling_rate": "Check the rate: its beats are those of another one.",
    "electrodes": "Check the electrodes of the arms.",
}
IN_CODE: Final[dict[Reason, str]] = {
    "missing": "pass a part as an array, or recording.select(...)",
    "flat": "recording.select(...)",
    "saturated": "pass a part as an array, or recording.select(...)",
}
"""How to follow the advice, for programmers."""


def recording_label(recording: Recording) -> str:
    """What an error calls a recording."""
    return f"recording '{recording.record_id}'" if recording.record_id else "the recording"


def count_frames(recording: Recording, policy: FramePolicy) -> int:
    """How many whole frames of an enforced rate a recording has; one without any is refused."""
    assert policy.sampling_rate is not None
    if not recording.sampling_rate >= MIN_SAMPLING_RATE:
        raise SignalError(
            f"{recording_label(recording)} has {recording.sampling_rate:g} samples a second, but a QRS complex needs "
            f"at least {MIN_SAMPLING_RATE:g} to be seen. Rates are in Hz."
        )
    frames = int(policy.num_frames(np.array([recording.num_samples]), np.array([recording.sampling_rate]))[0])
    if not frames:
        raise SignalError(
            f"{recording_label(recording)} lasts {recording.seconds:g} s, but the encoder takes frames of "
            f"{policy.num_samples / policy.sampling_rate:g} s ({policy.num_samples} samples at "
            f"{policy.sampling_rate:g} Hz), and none is "
            "stretched or padded. Use a longer recording."
        )
    return frames


def check_signal_quality(recording: Recording, leads: Collection[str]) -> None:
    """Refuse a fault of the whole recording or of these leads, and leads that do not obey the lead equations."""
    found = [item for item in assess(recording, GATE) if item.lead in ("", *leads) or item.reason == "lead_equations"]
    _refuse(recording, found)


def check_flat_frames(recording: Recording, policy: FramePolicy, frames: int) -> None:
    """Refuse a lead that is flat for a whole frame, which the gate's look at all of the lead does not see."""
    assert policy.sampling_rate is not None
    seconds = policy.num_samples / policy.sampling_rate
    borders = np.rint(np.arange(frames + 1) * seconds * recording.sampling_rate).astype(int)
    found = []
    for frame, (begin, end) in enumerate(itertools.pairwise(borders)):
        faults = assess(replace(recording, digital=recording.digital[:, begin:end]), FLAT_ONLY)
        place = f"from {frame * seconds:g} to {(frame + 1) * seconds:g} s"
        found += [replace(fault, detail=f"{fault.detail} {place}") for fault in faults]
    _refuse(recording, found)


def warnings_for(recording: Recording) -> tuple[str, ...]:
    """Return what the beats of a recording cast doubt on: no reason to refuse it, but to look again."""
    return tuple(
        f"{f'lead {item.lead}' if item.lead else item.reason}: {item.detail}. {ADVICE[item.reason]}"
        for item in assess(recording, BY_BEATS)
    )


def _refuse(recording: Recording, found: list[Finding]) -> None:
    if not found:
        return
    faults = "; ".join(f"{' '.join(filter(None, (item.lead, item.reason)))}: {item.detail}" for item in found)
    first = min((item.reason for item in found), key=REASONS.index)
    refusal = SignalError(f"{recording_label(recording)} is not embedded: {faults}. {ADVICE[first]}")
    raise refusal.with_code_hint(IN_CODE.get(first, ""))
