"""The gate between a recording and its classes.

Classes are withheld, with the reasons, from recordings that a classifier cannot judge: without clear beats, of
children, with a heart rate or features unlike those it was fitted on. Leads of poor quality are left out. Pacing is a
finding, which leaves no class but that of pacing itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clocs.core.recording import Recording
from clocs.inference.classifier import Classifier
from clocs.inference.input_checks import lead_faults, recording_faults
from clocs.measurements.signal_quality import assess_signal
from clocs.signals.resampling import Floats

MIN_AGE: Final = 16.0
"""Minimum age in years for classes."""
ADULTS: Final = "validated on adults"
PACED: Final = "paced"
"""Finding of pacing spikes."""
PACING_CLASSES: Final = frozenset({"PACE"})
"""Classes of pacing itself, which paced recordings may have."""
PACED_REASON: Final = "paced: pacing spikes were found, and other classes do not apply to paced beats"


@dataclass(frozen=True)
class InputVerdict:
    """Usability of a recording."""

    leads: tuple[str, ...]
    """Leads that are usable."""
    notes: tuple[str, ...] = ()
    """Leads that are left out, and an unknown age; one sentence each."""
    findings: tuple[str, ...] = ()
    """Findings that need no classifier: ``paced``."""
    reasons: tuple[str, ...] = ()
    """Why the signal cannot be judged, one sentence each. Empty: it can."""
    heart_rate: float | None = None
    """Measured heart rate in beats per minute."""


def judge_signal(recording: Recording) -> InputVerdict:
    """Judge the signal of a recording as a whole: its leads, its beats, and pacing.

    Args:
        recording: The recording, of at most a few minutes; see :func:`clocs.inference.long_recordings.judge_minutes`.

    Returns:
        Usable leads, findings, and the reasons for which neither classes nor similar patients are reported.

    Example:
        >>> from clocs.inference.recordings import as_recording
        >>> noise = np.random.default_rng(0).normal(0, 0.3, (1, 5000))
        >>> judge_signal(as_recording(noise, sampling_rate=500, leads=["II"], unit="mV")).reasons
        ('heartbeats cannot be measured: no clear beats',)
    """
    faults = lead_faults(recording)
    sound = tuple(lead for lead in recording.leads if lead not in faults)
    if recording.unit != "mV":
        return InputVerdict(sound, _lead_notes(faults))
    quality = assess_signal(recording, excluded=faults)
    faults |= quality.faults
    leads = tuple(lead for lead in recording.leads if lead not in faults)
    if not leads:
        return InputVerdict(leads, _lead_notes(faults), reasons=("no lead is usable",))
    reasons = recording_faults(recording.select(sound))
    heart_rate = quality.measurements.heart_rate.value
    if heart_rate is None:
        reasons.append(f"heartbeats cannot be measured: {quality.measurements.heart_rate.reason}")
    elif quality.has_waves_only:
        reasons.append("heartbeats cannot be measured: waves as in ventricular fibrillation or flutter")
    findings = (PACED,) if quality.measurements.paced and not reasons else ()
    return InputVerdict(leads, _lead_notes(faults), findings, tuple(reasons), heart_rate)


def judge_patient(recording: Recording) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Judge the age of a patient. Return reasons to withhold classes, and notes."""
    if recording.age is None:
        return (), (f"age unknown: the classes were {ADULTS}",)
    if recording.age < MIN_AGE:
        return (f"the patient is {recording.age:g} years old, and the classes were {ADULTS}",), ()
    return (), ()


def judge_features(
    classifier: Classifier, set_index: int, features: Floats, heart_rate: float | None
) -> tuple[str, ...]:
    """Judge whether a recording resembles those that a classifier was fitted on.

    Args:
        classifier: The classifier.
        set_index: Index of the set of leads.
        features: Features (D,) of the recording, computed from the leads of the set.
        heart_rate: Heart rate in beats per minute; None if it is unknown.

    Returns:
        Reasons to withhold its classes, one sentence each. Empty: there is none.
    """
    reasons = []
    low, high = classifier.card.heart_rates
    if heart_rate is not None and not low <= heart_rate <= high:
        reasons.append(
            f"heart rate {heart_rate:.0f} per minute; the classifier was fitted on {low:.0f} to {high:.0f} per minute"
        )
    distance = float(classifier.distances(features[None], set_index)[0])
    limit = classifier.card.lead_sets[set_index].max_distance
    if distance > limit:
        reasons.append(
            f"unlike the recordings that the classifier was fitted on: distance {distance:.3g}, limit {limit:.3g}"
        )
    return tuple(reasons)


def _lead_notes(faults: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"lead {lead} not used: {fault}" for lead, fault in faults.items())
