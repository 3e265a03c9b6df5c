"""Judgement of recordings of any length, minute by minute: a fault of a minute leaves out this minute alone."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from clocs.core.errors import SignalError
from clocs.core.recording import Recording
from clocs.inference.abstention import InputVerdict, judge_signal
from clocs.inference.input_checks import length_faults, recording_label
from clocs.signals.leads import available_leads

SECONDS: Final = 60
"""Seconds of a minute. The last one is longer if the recording does not end with a full one."""


@dataclass(frozen=True)
class Minute:
    """A minute of a recording, or a shorter recording as a whole."""

    recording: Recording
    """Its samples."""
    verdict: InputVerdict
    """Judgement of its signal."""

    def has_usable(self, leads: Collection[str]) -> bool:
        """Return whether the minute can be judged and all these leads are usable or can be derived."""
        return not self.verdict.reasons and set(leads) <= set(available_leads(self.verdict.leads))


def judge_minutes(recording: Recording) -> tuple[Minute, ...]:
    """Judge each minute of a recording. One shorter than two minutes is judged as a whole.

    Args:
        recording: The recording.

    Example:
        >>> from clocs.inference.recordings import as_recording
        >>> noise = np.random.default_rng(0).normal(0, 0.3, (1, 15000))
        >>> recording = as_recording(noise, sampling_rate=100, leads=["II"], unit="mV")
        >>> [minute.recording.seconds for minute in judge_minutes(recording)]
        [60.0, 90.0]
    """
    count = int(recording.seconds // SECONDS)
    if count < 2:
        return (Minute(recording, judge_signal(recording)),)
    faults = length_faults(recording)
    provenance = replace(recording.provenance, num_declared_samples=None)
    edges = [round(SECONDS * number * recording.sampling_rate) for number in range(count)] + [recording.num_samples]
    minutes = []
    for begin, end in itertools.pairwise(edges):
        part = replace(recording, digital=recording.digital[:, begin:end], episodes=(), provenance=provenance)
        verdict = judge_signal(part)
        minutes.append(Minute(part, replace(verdict, reasons=(*faults, *verdict.reasons))))
    return tuple(minutes)


def reasons_to_withhold(by_minute: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Return why a recording cannot be judged: more than half of its minutes cannot. Empty: it can.

    Args:
        by_minute: The reasons of each minute, empty for those that can be judged.

    Example:
        >>> reasons_to_withhold([["no clear beats"]])
        ('no clear beats',)
        >>> reasons_to_withhold([["no clear beats"], ["no clear beats"], []])
        ('2 of 3 minutes cannot be judged, most often for this reason: no clear beats',)
    """
    num_faulty = sum(map(bool, by_minute))
    if 2 * num_faulty <= len(by_minute):
        return ()
    if len(by_minute) == 1:
        return tuple(by_minute[0])
    return (_summary("cannot be judged", by_minute),)


def notes_on_minutes(
    recording: Recording, minutes: Sequence[Minute], by_minute: Sequence[Collection[str]]
) -> list[str]:
    """Return notes on leads and minutes that are left out.

    Args:
        recording: The recording.
        minutes: Its minutes.
        by_minute: The reasons for which each of them is left out.
    """
    if len(minutes) == 1:
        return list(minutes[0].verdict.notes)
    absent = Counter(lead for minute in minutes for lead in recording.leads if lead not in minute.verdict.leads)
    notes = [f"lead {lead} not usable in {absent[lead]} of {len(minutes)} minutes" for lead in absent]
    return [*notes, _summary("not used", by_minute)] if any(by_minute) else notes


def require_signal(recording: Recording) -> None:
    """Raise an error if the signal of a recording cannot be judged, so that it is not compared with patients.

    Raises:
        SignalError: It has no usable lead, or no clear heartbeats.
    """
    reasons = reasons_to_withhold([minute.verdict.reasons for minute in judge_minutes(recording)])
    if reasons:
        raise SignalError(f"{recording_label(recording)} is not compared with patients: {'; '.join(reasons)}.")


def _summary(fate: str, by_minute: Sequence[Collection[str]]) -> str:
    """Return how many minutes have reasons, and the most frequent reason."""
    ((reason, _),) = Counter(reason for reasons in by_minute for reason in reasons).most_common(1)
    num_faulty = sum(map(bool, by_minute))
    return f"{num_faulty} of {len(by_minute)} minutes {fate}, most often for this reason: {reason}"
