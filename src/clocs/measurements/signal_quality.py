"""Signal quality of an ECG: leads with flat parts, noise, hum, motion or clipping, and whether beats are clear."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from clocs.core.recording import Recording
from clocs.measurements.filtering import MAINS
from clocs.measurements.measurements import measure
from clocs.measurements.results import Measurements
from clocs.measurements.smoothing import mean_filter

Values = npt.NDArray[np.float32]

FLAT_SPAN, FLAT_SECONDS = 0.01, 4.0
"""A lead is flat if its span in mV is smaller for this many seconds."""
CLIPPED_RUN, MAX_CLIPPED = 0.012, 0.01
"""Minimum seconds at the maximum or minimum of a lead that count as clipped, and their maximum fraction."""
MAX_HUM, MIN_HUM_AMPLITUDE = 0.5, 0.05
"""Maximum amplitude of hum, relative to the height of the beats; a lower amplitude in mV is never a fault."""
MAX_JUMP: Final = 2.0
"""Maximum change of the baseline in ``JUMP_SECONDS``, in mV."""
JUMP_SECONDS: Final = 0.3
"""Seconds in which the baseline moves with electrodes. Breathing moves it slowly."""
LEAKAGE_SECONDS: Final = 1.5
"""Seconds in which waves are compared with their opposite half a period later."""
MAX_WAVE_LEAKAGE: Final = 0.45
"""Leakage below which a signal consists of waves without beats. A sine has 0, beats with a flat line between them 1."""
BASELINE_SECONDS: Final = 0.6
"""Seconds over which the signal is averaged, twice, to its baseline."""


@dataclass(frozen=True, eq=False)
class SignalQuality:
    """Leads that are not usable, and the measurements of the others."""

    faults: dict[str, str]
    """Leads that are not usable, each with the reason."""
    measurements: Measurements
    """Measurements of the other leads."""
    has_waves_only: bool
    """Whether the usable leads have waves as in ventricular fibrillation or flutter instead of beats."""


def assess_signal(recording: Recording, excluded: Collection[str] = ()) -> SignalQuality:
    """Judge each lead of a recording by itself, then its beats by those of all usable leads.

    Args:
        recording: A recording in mV.
        excluded: Leads that are not judged, such as those that fail other checks.

    Returns:
        Faults of leads, and the measurements without these leads.
    """
    rows = [row for row, lead in enumerate(recording.leads) if lead not in excluded]
    signal, sampling_rate = recording.physical()[rows].astype(np.float32), recording.sampling_rate
    judged = tuple(recording.leads[row] for row in rows)
    is_long = len(rows) > 0 and signal.shape[1] >= 1.5 * sampling_rate
    found = _signal_faults(np.nan_to_num(signal), sampling_rate) if is_long else {}
    faults = {judged[row]: fault for row, fault in found.items()}
    sound = tuple(lead for lead in judged if lead not in faults)
    measured = measure(signal[[row for row in range(len(judged)) if row not in found]], sampling_rate, sound)
    if measured.heart_rate.value is not None:
        faults |= {lead: "noise: its beats differ from each other" for lead in sound if lead not in measured.leads}
    usable = [row for row, lead in enumerate(judged) if lead not in faults]
    return SignalQuality(faults, measured, is_long and wave_leakage(signal[usable], sampling_rate) < MAX_WAVE_LEAKAGE)


def wave_leakage(signal: Values, sampling_rate: float) -> float:
    """Return what a filter for sine waves leaves of a signal, as a median over leads and time.

    Half a period is estimated from the mean slope, and the signal is added to itself half a period later (Kuo and
    Dillman, Computer detection of ventricular fibrillation, Computers in Cardiology, 1978).

    Args:
        signal: Signal of shape (leads, samples), at least ``LEAKAGE_SECONDS`` long.
        sampling_rate: Sampling rate in Hz.

    Returns:
        Leakage: 0 for a sine, towards 1 for narrow beats; 1 without leads.
    """
    smooth = _without_mains(np.nan_to_num(signal) - _baseline(np.nan_to_num(signal), sampling_rate), sampling_rate)
    length = round(LEAKAGE_SECONDS * sampling_rate)
    found = []
    for begin in range(0, signal.shape[1] - length + 1, length):
        part = smooth[:, begin : begin + length]
        for values in part - part.mean(axis=1, keepdims=True):
            half = round(float(np.pi * np.abs(values).sum() / max(float(np.abs(np.diff(values)).sum()), 1e-9)))
            if 0 < half < length // 2:
                late, early = values[half:], values[:-half]
                found.append(float(np.abs(late + early).sum() / max(float((np.abs(late) + np.abs(early)).sum()), 1e-9)))
    return float(np.median(found)) if found else 1.0


def _signal_faults(signal: Values, sampling_rate: float) -> dict[int, str]:
    """Return the faults of leads by row."""
    baseline = _baseline(signal, sampling_rate)
    heights = _beat_heights(signal - baseline, sampling_rate)
    delay = round(JUMP_SECONDS * sampling_rate)
    jumps = np.abs(baseline[:, delay:] - baseline[:, :-delay]).max(axis=1, initial=0)
    hum = _hum_amplitudes(signal, sampling_rate)
    faults: dict[int, str] = {}
    for row, values in enumerate(signal):
        if _is_flat(values, sampling_rate):
            faults[row] = f"flat for {FLAT_SECONDS:g} s or longer"
        elif (clipped := _clipped_fraction(values, sampling_rate)) > MAX_CLIPPED:
            faults[row] = f"clipping: {clipped:.0%} of the samples at its limits"
        elif hum[row] > max(MAX_HUM * heights[row], MIN_HUM_AMPLITUDE):
            faults[row] = f"hum: {hum[row]:.2g} mV"
        elif jumps[row] > MAX_JUMP:
            faults[row] = f"motion: the baseline moves by {jumps[row]:.2g} mV in {JUMP_SECONDS:g} s"
    return faults


def _baseline(signal: Values, sampling_rate: float) -> Values:
    """Return the baseline of each lead."""
    width = max(1, round(BASELINE_SECONDS * sampling_rate))
    return mean_filter(mean_filter(signal, width), width)


def _without_mains(signal: Values, sampling_rate: float) -> Values:
    """Return a signal averaged over the periods of mains."""
    for mains in MAINS:
        signal = mean_filter(signal, max(1, round(sampling_rate / mains)))
    return signal


def _beat_heights(signal: Values, sampling_rate: float) -> npt.NDArray[np.float64]:
    """Return the typical height of the beats of each lead: the median over 1.5 s of the span, without hum."""
    signal = _without_mains(signal, sampling_rate)
    length = round(1.5 * sampling_rate)
    count = max(1, signal.shape[1] // length)
    parts = signal[:, : count * length].reshape(len(signal), count, -1)
    return np.asarray(np.median(np.ptp(parts, axis=2), axis=1), np.float64)


def _hum_amplitudes(signal: Values, sampling_rate: float) -> npt.NDArray[np.float64]:
    """Return the largest amplitude at a frequency of mains of each lead."""
    window = np.hanning(signal.shape[1]).astype(np.float32)
    spectrum = np.abs(np.fft.rfft((signal - signal.mean(axis=1, keepdims=True)) * window, axis=1)) * (2 / window.sum())
    frequency = np.fft.rfftfreq(signal.shape[1], 1 / sampling_rate)
    near = np.min([np.abs(frequency - mains) for mains in MAINS], axis=0) < 1
    return np.asarray(spectrum[:, near].max(axis=1, initial=0), np.float64)


def _is_flat(values: Values, sampling_rate: float) -> bool:
    """Return whether a lead is flat for ``FLAT_SECONDS``, looked at in steps of half a second."""
    step = max(1, round(0.5 * sampling_rate))
    length, count = round(FLAT_SECONDS / 0.5), len(values) // step
    if count < length:
        return False
    parts = values[: count * step].reshape(count, step)
    low = sliding_window_view(parts.min(axis=1), length).min(axis=1)
    high = sliding_window_view(parts.max(axis=1), length).max(axis=1)
    return bool((high - low < FLAT_SPAN).any())


def _clipped_fraction(values: Values, sampling_rate: float) -> float:
    """Return the fraction of samples in runs at the maximum or minimum of a lead."""
    shortest = max(3, round(CLIPPED_RUN * sampling_rate))
    clipped = 0
    for extreme in (values.max(), values.min()):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], (values == extreme).view(np.int8), [0]))))
        runs = edges[1::2] - edges[::2]
        clipped += int(runs[runs >= shortest].sum())
    return clipped / len(values)
