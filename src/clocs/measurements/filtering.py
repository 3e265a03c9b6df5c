"""Filters without phase shift: one Fourier transform gives the signal at the rate of the analysis and its QRS band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.measurements.smoothing import fast_length

Values = npt.NDArray[np.float32]

ANALYSIS_RATE: Final = 500.0
"""Approximate sampling rate in Hz of the signal in which waves are delineated."""
DETECTION_RATE: Final = 200.0
"""Approximate sampling rate in Hz of the slopes in which QRS complexes are detected."""
PADDING: Final = 1.0
"""Seconds by which both ends are continued, so that filters do not connect the end with the start."""
BASELINE: Final = 0.5
"""Frequency in Hz below which the baseline wanders. The response falls from 1 to 0 around it."""
QRS_BAND: Final = (6.0, 10.0, 18.0, 28.0)
"""Frequencies in Hz at which the QRS band begins, is full, is full for the last time, and ends."""
MAX_FREQUENCY: Final = (90.0, 110.0)
"""Frequencies in Hz from which on higher ones are reduced, and above which nothing is left."""
MAINS: Final = (50.0, 60.0)
"""Frequencies of mains in Hz."""
HUM_RATIO: Final = 4.0
"""Amplitude at a frequency of mains, relative to its neighbors, above which hum is removed."""


@dataclass(frozen=True)
class FilteredSignal:
    """A signal without baseline wander and hum, and its slopes in the QRS band."""

    values: Values
    """Signal of shape (leads, samples) in the unit of the input."""
    sampling_rate: float
    """Sampling rate of ``values`` in Hz."""
    slopes: Values
    """Absolute slopes in the QRS band per second, of shape (leads, slopes)."""
    slope_rate: float
    """Sampling rate of ``slopes`` in Hz."""


def filter_signal(signal: Values, sampling_rate: float) -> FilteredSignal:
    """Remove baseline wander, hum and high frequencies, and compute slopes in the QRS band.

    Args:
        signal: Signal of shape (leads, samples) without missing samples.
        sampling_rate: Its sampling rate in Hz.

    Returns:
        The filtered signal at about ``ANALYSIS_RATE``, and slopes at about ``DETECTION_RATE``.
    """
    num_samples = signal.shape[1]
    pad = min(num_samples - 1, round(PADDING * sampling_rate))
    padded = np.pad(signal - signal[:, :1], ((0, 0), (pad, pad)), "reflect", reflect_type="odd")
    total = fast_length(padded.shape[1])
    padded = np.pad(padded, ((0, 0), (0, total - padded.shape[1])), "edge")
    padded[:, num_samples + 2 * pad :] = padded[:, :1]
    spectrum = np.fft.rfft(padded, axis=1).astype(np.complex64, copy=False)
    frequency = np.arange(spectrum.shape[1], dtype=np.float64) * (sampling_rate / total)
    response = _rise(frequency, BASELINE / 2, 1.5 * BASELINE) * (1 - _rise(frequency, *MAX_FREQUENCY))
    spectrum *= (response * _hum_response(spectrum, frequency)).astype(np.float32)
    values, rate = _at_rate(spectrum, total, sampling_rate, ANALYSIS_RATE)
    band = _rise(frequency, *QRS_BAND[:2]) * (1 - _rise(frequency, *QRS_BAND[2:])) * 2j * np.pi * frequency
    slopes, slope_rate = _at_rate(spectrum * band.astype(np.complex64), total, sampling_rate, DETECTION_RATE)
    return FilteredSignal(
        _cut(values, pad, num_samples, rate / sampling_rate),
        rate,
        np.abs(_cut(slopes, pad, num_samples, slope_rate / sampling_rate)),
        slope_rate,
    )


def _rise(frequency: npt.NDArray[np.float64], start: float, end: float) -> npt.NDArray[np.float64]:
    """Return a smooth step from 0 at one frequency to 1 at another."""
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.clip((frequency - start) / (end - start), 0, 1)))


def _hum_response(spectrum: npt.NDArray[np.complex64], frequency: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return zero around frequencies of mains that stand out from their neighbors, and one elsewhere."""
    response = np.ones(len(frequency))
    for mains in MAINS:
        distance = np.abs(frequency - mains)
        near, around = distance < 0.6, (distance > 1.5) & (distance < 6)
        if not near.any() or not around.any():
            continue
        size = np.sqrt(np.mean(np.square(np.abs(spectrum[:, around]))))
        if np.abs(spectrum[:, near]).max() > HUM_RATIO * size:
            response *= _rise(distance, 0.6, 1.5)
    return response


def _at_rate(
    spectrum: npt.NDArray[np.complex64], total: int, sampling_rate: float, target: float
) -> tuple[Values, float]:
    """Return the signal of a spectrum at about another sampling rate, and that rate."""
    length = fast_length(round(total * target / sampling_rate))
    size = length // 2 + 1
    values = np.fft.irfft(spectrum[:, :size], length, axis=1) * np.float32(length / total)
    return np.asarray(values, np.float32), sampling_rate * length / total


def _cut(values: Values, pad: int, num_samples: int, ratio: float) -> Values:
    """Cut the continued ends. A start between two samples is rounded."""
    first = round(pad * ratio)
    return values[:, first : first + int(num_samples * ratio)]
