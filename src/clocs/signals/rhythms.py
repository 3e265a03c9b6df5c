"""Simulated times of atrial and ventricular beats: sinus rhythm, fibrillation, ectopic beats, AV block and pacing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.signals.heart_vector import Heart, clipped_normal

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]

HEART_RATES: Final = {"SR": (61, 98), "SB": (42, 58), "ST": (103, 145), "AFIB": (65, 135), "PVC": (61, 92)}
"""Rhythm -> range of the heart rate in beats per minute: ventricular in atrial fibrillation, otherwise atrial."""
KINDS: Final = ("conducted", "ventricular", "escape", "paced")
"""Origins of a ventricular beat. ``BeatSequence.kinds`` contains their indices."""
CONDUCTED, VENTRICULAR, ESCAPE, PACED = range(len(KINDS))
SECONDS_BEFORE: Final = 0.9
"""Beats may begin this many seconds before a recording."""
SECONDS_AFTER: Final = 0.3
"""Beats may begin this many seconds after a recording."""
_PR_EXPONENT = 0.25
"""Exponent of the interval in the PR interval."""
_PREMATURITY = 0.38
"""Fraction of the interval by which a premature beat is early."""


@dataclass(frozen=True)
class BeatSequence:
    """Times of the beats of a recording in seconds, including beats shortly before its start and after its end.

    Args:
        atrial: Onsets of P waves, of shape (P waves,); empty in atrial fibrillation.
        atrial_ectopic: Whether each P wave is ectopic, of shape (P waves,).
        ventricular: Onsets of QRS complexes, of shape (beats,).
        kinds: Index in ``KINDS`` of the origin of each complex, of shape (beats,).
        pr: PR interval of each complex in seconds, of shape (beats,); NaN without a conducted P wave.
    """

    atrial: Array
    atrial_ectopic: Flags
    ventricular: Array
    kinds: Kinds
    pr: Array


def make_beats(
    rhythm: str, conduction: str, paced: bool, heart: Heart, seconds: float, random: np.random.Generator
) -> BeatSequence:
    """Draw the beat times of a recording at random.

    Args:
        rhythm: A key of ``HEART_RATES``.
        conduction: ``1AVB``, ``2AVB``, ``3AVB``, ``PAC`` or empty.
        paced: Whether the ventricles are paced: after each P wave, or at a fixed rate in atrial fibrillation.
        heart: Heart of the patient.
        seconds: Duration of the recording.
        random: Random generator of the recording.

    Returns:
        Beats, the first of which may begin up to ``SECONDS_BEFORE`` seconds before the recording.
    """
    low, high = HEART_RATES[rhythm]
    interval = 60 / (low + (high - low) * heart.tempo)
    count = math.ceil((seconds + 6) / (0.6 * interval)) + 8
    if rhythm == "AFIB":
        beats = _fibrillation(interval, conduction, paced, count, random)
    else:
        beats = _sinus_rhythm(rhythm, conduction, paced, heart, interval, count, seconds, random)
    return _select_visible(beats, seconds)


def _fibrillation(
    interval: float, conduction: str, paced: bool, count: int, random: np.random.Generator
) -> BeatSequence:
    """Draw irregular ventricular beats, or regular ones with an AV block or a pacemaker."""
    if paced or conduction == "3AVB":
        at = _cumulative_times(_escape_intervals(count, (0.75, 1.0) if paced else (1.3, 1.75), random), random)
        kind = PACED if paced else ESCAPE
    else:
        spread = random.uniform(14, 34)
        drawn = np.clip(interval * random.gamma(spread, 1 / spread, count), max(0.32, 0.55 * interval), 2 * interval)
        at, kind = _cumulative_times(drawn, random), CONDUCTED
    no_p_waves = np.empty(0)
    return BeatSequence(
        no_p_waves, no_p_waves.astype(np.bool_), at, np.full(count, kind, np.int8), np.full(count, np.nan)
    )


def _sinus_rhythm(
    rhythm: str,
    conduction: str,
    paced: bool,
    heart: Heart,
    interval: float,
    count: int,
    seconds: float,
    random: np.random.Generator,
) -> BeatSequence:
    """Draw atrial beats of the sinus node, and the ventricular beats that the AV node conducts."""
    breathing = np.sin(2 * np.pi * (random.random() + random.uniform(0.15, 0.35) * interval * np.arange(count)))
    intervals = interval * (1 + random.uniform(0.005, 0.035) * breathing + 0.008 * clipped_normal(random, count))
    first = math.ceil(2.3 / interval) + 1  # the first beat that is always within the recording
    num_inside = max(1, math.floor((seconds - 1.2) / interval) - 1)
    premature = np.zeros(count, np.bool_)
    if conduction == "PAC" or rhythm == "PVC":
        premature = _choose_ectopic(random.uniform(0.08, 0.26), first, num_inside, count, random)
    if conduction == "PAC":
        intervals -= np.where(premature, _PREMATURITY * interval, 0)
        intervals += np.roll(np.where(premature, 0.12 * interval, 0), 1)  # the sinus node is reset
    atrial = _cumulative_times(intervals, random)
    pr = np.full(count, heart.pr * interval**_PR_EXPONENT)
    kinds = np.full(count, CONDUCTED, np.int8)
    if paced:
        pr[:], kinds[:] = random.uniform(0.13, 0.19), PACED
    if conduction == "1AVB":
        pr[:] = random.uniform(0.225, 0.31)
    if conduction == "3AVB":
        at = _cumulative_times(_escape_intervals(count, (1.3, 1.8), random), random)
        return BeatSequence(atrial, premature, at, np.full(count, ESCAPE, np.int8), np.full(count, np.nan))
    is_conducted = np.ones(count, np.bool_)
    if conduction == "2AVB":
        is_conducted = _second_degree_block(pr, interval, random)
    ventricular = atrial + pr
    if rhythm == "PVC":
        ventricular = ventricular - np.where(premature, _PREMATURITY * interval, 0)  # followed by a compensatory pause
        kinds[premature], pr[premature] = VENTRICULAR, np.nan
    ectopic = premature if conduction == "PAC" else np.zeros(count, np.bool_)
    return BeatSequence(atrial, ectopic, ventricular[is_conducted], kinds[is_conducted], pr[is_conducted])


def _second_degree_block(pr: Array, interval: float, random: np.random.Generator) -> Flags:
    """Return a mask of conducted P waves. For Wenckebach periods (Mobitz I), lengthen ``pr`` in place."""
    lengthens, period = ((True, 3), (True, 4), (True, 5), (False, 2), (False, 3))[int(random.integers(5))]
    position = (np.arange(len(pr)) + int(random.integers(period))) % period
    if lengthens:
        pr += min(0.16, 0.3 * interval) * (1 - 0.5**position)
    return np.asarray(position < period - 1)


def _choose_ectopic(probability: float, first: int, num_inside: int, count: int, random: np.random.Generator) -> Flags:
    """Choose beats at random: never two in a row, and at least one within the recording."""
    priority = random.random(count)
    priority[first + int(random.integers(num_inside))] = -1
    chosen = np.zeros(count, np.bool_)
    chosen[1:-1] = (priority[1:-1] < probability) & (priority[1:-1] < priority[:-2]) & (priority[1:-1] < priority[2:])
    return chosen


def _escape_intervals(count: int, limits: tuple[float, float], random: np.random.Generator) -> Array:
    return np.asarray(random.uniform(*limits) * (1 + 0.006 * clipped_normal(random, count)))


def _cumulative_times(intervals: Array, random: np.random.Generator) -> Array:
    """Return times with these intervals, beginning about two seconds before the recording."""
    return np.asarray(np.cumsum(intervals) - intervals[0] * (1 + random.random()) - 2)


def _select_visible(beats: BeatSequence, seconds: float) -> BeatSequence:
    """Remove beats that begin too early or too late to be visible."""
    p = (beats.atrial > -SECONDS_BEFORE) & (beats.atrial < seconds + SECONDS_AFTER)
    v = (beats.ventricular > -SECONDS_BEFORE) & (beats.ventricular < seconds + SECONDS_AFTER)
    return BeatSequence(beats.atrial[p], beats.atrial_ectopic[p], beats.ventricular[v], beats.kinds[v], beats.pr[v])
