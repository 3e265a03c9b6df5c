"""When atria and ventricles beat: sinus rhythm, atrial fibrillation, ectopic beats, AV block and pacing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.signals.heart_vector import Heart, bounded

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]

HEART_RATES: Final = {"SR": (61, 98), "SB": (42, 58), "ST": (103, 145), "AFIB": (65, 135), "PVC": (61, 92)}
"""Rhythm -> beats per minute of the atria; in atrial fibrillation of the ventricles."""
KINDS: Final = ("conducted", "ventricular", "escape", "paced")
"""Origins of a ventricular beat; ``BeatSequence.kinds`` holds their indices."""
CONDUCTED, VENTRICULAR, ESCAPE, PACED = range(len(KINDS))
LEAD_IN: Final = 0.9
"""Seconds before a recording from which on beats may begin."""
LEAD_OUT: Final = 0.3
_SLOWING = 0.25
_PREMATURE = 0.38


@dataclass(frozen=True)
class BeatSequence:
    """Beats of a recording, from a little before its start to a little after its end; times in seconds.

    Args:
        atrial: Onsets of P waves; empty in atrial fibrillation.
        atrial_ectopic: Whether a P wave is ectopic.
        ventricular: Onsets of QRS complexes.
        kinds: Index of each complex's origin in ``KINDS``.
        pr: PR interval of each complex; NaN where no P wave conducted.
    """

    atrial: Array
    atrial_ectopic: Flags
    ventricular: Array
    kinds: Kinds
    pr: Array


def make_beats(
    rhythm: str, conduction: str, paced: bool, heart: Heart, seconds: float, random: np.random.Generator
) -> BeatSequence:
    """Draw the beats of a recording.

    Args:
        rhythm: A key of ``HEART_RATES``.
        conduction: ``1AVB``, ``2AVB``, ``3AVB``, ``PAC`` or empty.
        paced: Whether the ventricles are paced: after each P wave, in atrial fibrillation at a fixed rate.
        heart: The patient's heart.
        seconds: Length of the recording.
        random: Generator of the recording.

    Returns:
        Beats that may begin up to ``LEAD_IN`` seconds before the recording.
    """
    low, high = HEART_RATES[rhythm]
    interval = 60 / (low + (high - low) * heart.tempo)
    count = math.ceil((seconds + 6) / (0.6 * interval)) + 8
    if rhythm == "AFIB":
        beats = _fibrillation(interval, conduction, paced, count, random)
    else:
        beats = _sinus(rhythm, conduction, paced, heart, interval, count, seconds, random)
    return _within(beats, seconds)


def _fibrillation(
    interval: float, conduction: str, paced: bool, count: int, random: np.random.Generator
) -> BeatSequence:
    """Ventricles beat irregularly, or regularly where a block or a pacemaker sets the pace."""
    if paced or conduction == "3AVB":
        at = _from_before(_escape_intervals(count, (0.75, 1.0) if paced else (1.3, 1.75), random), random)
        kind = PACED if paced else ESCAPE
    else:
        spread = random.uniform(14, 34)
        drawn = np.clip(interval * random.gamma(spread, 1 / spread, count), max(0.32, 0.55 * interval), 2 * interval)
        at, kind = _from_before(drawn, random), CONDUCTED
    nothing = np.empty(0)
    return BeatSequence(nothing, nothing.astype(np.bool_), at, np.full(count, kind, np.int8), np.full(count, np.nan))


def _sinus(
    rhythm: str,
    conduction: str,
    paced: bool,
    heart: Heart,
    interval: float,
    count: int,
    seconds: float,
    random: np.random.Generator,
) -> BeatSequence:
    """Atria follow the sinus node, and ventricles the atria as far as the AV node lets them."""
    breathing = np.sin(2 * np.pi * (random.random() + random.uniform(0.15, 0.35) * interval * np.arange(count)))
    intervals = interval * (1 + random.uniform(0.005, 0.035) * breathing + 0.008 * bounded(random, count))
    first = math.ceil(2.3 / interval) + 1  # the first beat that is certain to lie inside
    inside = max(1, math.floor((seconds - 1.2) / interval) - 1)
    premature = np.zeros(count, np.bool_)
    if conduction == "PAC" or rhythm == "PVC":
        premature = _sparse(random.uniform(0.08, 0.26), first, inside, count, random)
    if conduction == "PAC":
        intervals -= np.where(premature, _PREMATURE * interval, 0)
        intervals += np.roll(np.where(premature, 0.12 * interval, 0), 1)  # the sinus node is reset
    atrial = _from_before(intervals, random)
    pr = np.full(count, heart.pr * interval**_SLOWING)
    kinds = np.full(count, CONDUCTED, np.int8)
    if paced:
        pr[:], kinds[:] = random.uniform(0.13, 0.19), PACED
    if conduction == "1AVB":
        pr[:] = random.uniform(0.225, 0.31)
    if conduction == "3AVB":
        at = _from_before(_escape_intervals(count, (1.3, 1.8), random), random)
        return BeatSequence(atrial, premature, at, np.full(count, ESCAPE, np.int8), np.full(count, np.nan))
    passed = np.ones(count, np.bool_)
    if conduction == "2AVB":
        passed = _second_degree(pr, interval, random)
    ventricular = atrial + pr
    if rhythm == "PVC":
        ventricular = ventricular - np.where(premature, _PREMATURE * interval, 0)  # the pause makes up for it
        kinds[premature], pr[premature] = VENTRICULAR, np.nan
    ectopic = premature if conduction == "PAC" else np.zeros(count, np.bool_)
    return BeatSequence(atrial, ectopic, ventricular[passed], kinds[passed], pr[passed])


def _second_degree(pr: Array, interval: float, random: np.random.Generator) -> Flags:
    """Return which P waves conduct; with Wenckebach's periods (Mobitz I), ``pr`` is lengthened in place."""
    lengthens, period = ((True, 3), (True, 4), (True, 5), (False, 2), (False, 3))[int(random.integers(5))]
    position = (np.arange(len(pr)) + int(random.integers(period))) % period
    if lengthens:
        pr += min(0.16, 0.3 * interval) * (1 - 0.5**position)
    return np.asarray(position < period - 1)


def _sparse(share: float, first: int, inside: int, count: int, random: np.random.Generator) -> Flags:
    """Choose beats, never two in a row, and at least one among those that lie inside."""
    lot = random.random(count)
    lot[first + int(random.integers(inside))] = -1
    chosen = np.zeros(count, np.bool_)
    chosen[1:-1] = (lot[1:-1] < share) & (lot[1:-1] < lot[:-2]) & (lot[1:-1] < lot[2:])
    return chosen


def _escape_intervals(count: int, limits: tuple[float, float], random: np.random.Generator) -> Array:
    return np.asarray(random.uniform(*limits) * (1 + 0.006 * bounded(random, count)))


def _from_before(intervals: Array, random: np.random.Generator) -> Array:
    """Return times whose intervals are given, from about two seconds before the recording on."""
    return np.asarray(np.cumsum(intervals) - intervals[0] * (1 + random.random()) - 2)


def _within(beats: BeatSequence, seconds: float) -> BeatSequence:
    """Leave out beats that begin too early or too late to be seen."""
    p = (beats.atrial > -LEAD_IN) & (beats.atrial < seconds + LEAD_OUT)
    v = (beats.ventricular > -LEAD_IN) & (beats.ventricular < seconds + LEAD_OUT)
    return BeatSequence(beats.atrial[p], beats.atrial_ectopic[p], beats.ventricular[v], beats.kinds[v], beats.pr[v])
