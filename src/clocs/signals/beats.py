"""Detection of heartbeats, and measurements of the typical beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording, missing_value
from clocs.signals.peaks import find_peaks

Values = npt.NDArray[np.float64]

PREFERRED_LEADS: Final = ("I", "II", "V2")
"""Leads in which beats are detected. A recording without them uses its first three leads."""
MAX_SECONDS: Final = 60.0
"""Seconds in the middle of a recording that are analysed."""
COARSE_SAMPLING_RATE: Final = 250.0
"""Approximate sampling rate in Hz for the analysis. It is sufficient for the width of a QRS complex."""
MIN_SAMPLING_RATE: Final = 50.0
"""Minimum sampling rate in Hz. Below it, a QRS complex of 80 ms has fewer than four samples."""
MIN_BEATS: Final = 4
"""Minimum number of beats for a measurement."""
MIN_INTERVAL: Final = 0.2
"""Minimum interval between beats in seconds: 300 beats per minute."""
QRS_WINDOW: Final = 0.1
"""Half of the smoothing window in seconds."""
SLOPE_QUANTILE, ENERGY_QUANTILE = 0.998, 0.98
"""Quantiles of slopes and energies that serve as their maximum. Larger values are spikes."""
MIN_RELATIVE_ENERGY: Final = 0.35
"""Minimum energy of a beat, relative to the energy of the steepest beats."""


@dataclass(frozen=True)
class BeatMeasurements:
    """Measurements of the beats of a recording, in seconds and in the unit of the recording."""

    interval: float
    """Median interval between beats in seconds."""
    irregularity: float
    """Standard deviation of the intervals, divided by their median."""
    qrs_width: float
    """Seconds that contain the middle 90 % of the squared slope of the typical beat, about half of the QRS duration."""
    t_delay: float
    """Seconds from the middle of the QRS complex to the peak of the T wave."""
    agreement: float
    """Median correlation of the beats with the typical beat."""
    waves: dict[str, tuple[float, float, float]]
    """Lead -> maximum plus minimum of P, QRS and T. A negative value is a wave that points down."""


def find_beats(recording: Recording) -> BeatMeasurements | None:
    """Detect and measure the beats of a recording.

    Args:
        recording: The recording.

    Returns:
        Measurements, or None if fewer than ``MIN_BEATS`` beats are detected or the sampling rate is too low.
    """
    if recording.sampling_rate < MIN_SAMPLING_RATE:
        return None
    leads = tuple(lead for lead in PREFERRED_LEADS if lead in recording.leads) or recording.leads[:3]
    values, sampling_rate = _downsample(recording.select(leads))
    peaks = _find_peaks(values, sampling_rate)
    if len(peaks) < MIN_BEATS:
        return None
    intervals = np.diff(peaks) / sampling_rate
    interval = float(np.median(intervals))
    before, after = int(min(0.35, 0.4 * interval) * sampling_rate), int(min(0.8, 0.7 * interval) * sampling_rate)
    complete = peaks[(peaks >= before) & (peaks + after <= values.shape[1])]
    if len(complete) < MIN_BEATS - 1 or before < 0.06 * sampling_rate:
        return None
    beats = values[:, complete[:, None] + np.arange(-before, after)]
    typical = np.median(beats, axis=1)
    begin, middle, end = _measure_qrs(typical, before, sampling_rate)
    waves, t_peak = _measure_waves(typical, begin, middle, end, sampling_rate)
    return BeatMeasurements(
        interval=interval,
        irregularity=float(np.std(intervals)) / interval,
        qrs_width=(end - begin) / sampling_rate,
        t_delay=(t_peak - middle) / sampling_rate,
        agreement=_agreement(beats, typical),
        waves=dict(zip(leads, waves, strict=True)),
    )


def beat_times(recording: Recording) -> Values:
    """Return the times of the beats: the steepest positions of all leads together.

    Args:
        recording: The recording.

    Returns:
        Seconds from the start of the analysed part, of shape (beats,).
    """
    values, sampling_rate = _downsample(recording)
    return _find_peaks(values, sampling_rate) / sampling_rate


def _downsample(recording: Recording) -> tuple[Values, float]:
    """Return the middle of a recording at about 250 Hz, with missing samples filled, and its sampling rate."""
    skip = max(0, int((recording.seconds - MAX_SECONDS) / 2 * recording.sampling_rate))
    digital = recording.digital[:, skip : recording.num_samples - skip]
    absent = digital == missing_value(digital.dtype)
    values = (digital - recording.baseline[:, None].astype(np.float64)) / recording.gain[:, None]
    if absent.any():
        values[absent] = np.broadcast_to(np.median(values, axis=1, keepdims=True), values.shape)[absent]
    factor = max(1, round(recording.sampling_rate / COARSE_SAMPLING_RATE))
    length = values.shape[1] // factor * factor
    return values[:, :length].reshape(len(values), -1, factor).mean(axis=2), recording.sampling_rate / factor


def _find_peaks(values: Values, sampling_rate: float) -> npt.NDArray[np.intp]:
    """Return the sample of each beat at which the leads together are steepest."""
    slopes = np.abs(values[:, 2:] - values[:, :-2])
    if slopes.shape[1] < sampling_rate:
        return np.empty(0, np.intp)
    steepest = _quantile(slopes, SLOPE_QUANTILE)
    steepest[steepest == 0] = np.inf
    energy = np.square(np.minimum(slopes / steepest[:, None], 1)).sum(axis=0)
    energy = np.convolve(energy, np.bartlett(2 * round(QRS_WINDOW * sampling_rate) + 1), "same")
    limit = MIN_RELATIVE_ENERGY * float(_quantile(energy, ENERGY_QUANTILE))
    distance = max(1, round(MIN_INTERVAL * sampling_rate))
    return np.asarray(find_peaks(energy, distance=distance, min_height=limit) + 1, np.intp)


def _quantile(values: Values, fraction: float) -> Values:
    """Return a quantile over the last axis, without interpolation."""
    index = int(fraction * (values.shape[-1] - 1))
    return np.asarray(np.partition(values, index, axis=-1)[..., index])


def _measure_qrs(typical: Values, before: int, sampling_rate: float) -> tuple[float, float, float]:
    """Return begin, middle and end of QRS in samples: 5, 50 and 95 % of the squared slope around the peak."""
    first = max(0, before - int(0.15 * sampling_rate))
    around = typical[:, first : before + int(0.15 * sampling_rate)]
    energy = np.cumsum(np.square(np.gradient(around, axis=1)).sum(axis=0))
    positions = np.interp(np.array([0.05, 0.5, 0.95]) * energy[-1], energy, np.arange(len(energy))) + first
    return float(positions[0]), float(positions[1]), float(positions[2])


def _measure_waves(
    typical: Values, begin: float, middle: float, end: float, sampling_rate: float
) -> tuple[list[tuple[float, float, float]], int]:
    """Return P, QRS and T of each lead relative to the level before QRS, and the sample of the T peak."""
    onset, offset = max(3, int(begin - 0.02 * sampling_rate)), int(end + 0.02 * sampling_rate) + 1
    level = typical - np.median(typical[:, onset - 3 : onset + 1], axis=1, keepdims=True)
    t_begin = min(int(middle + max((end - begin) / 2, 0.05 * sampling_rate) + 0.06 * sampling_rate), level.shape[1] - 3)
    parts = [
        level[:, max(0, onset - int(0.16 * sampling_rate)) : onset],
        level[:, onset : offset + 1],
        level[:, t_begin:],
    ]
    signs = np.stack([part.max(axis=1) + part.min(axis=1) for part in parts], axis=1)
    size = np.convolve(np.sqrt(np.square(level).sum(axis=0)), np.full(9, 1 / 9), "same")
    return [(row[0], row[1], row[2]) for row in signs.tolist()], t_begin + int(np.argmax(size[t_begin:]))


def _agreement(beats: Values, typical: Values) -> float:
    """Return the median correlation of beats (leads, beats, samples) with the typical beat (leads, samples)."""
    centered, mean = beats - beats.mean(axis=2, keepdims=True), typical - typical.mean(axis=1, keepdims=True)
    products = np.einsum("lbs,ls->b", centered, mean)
    sizes = np.sqrt(np.einsum("lbs,lbs->b", centered, centered) * np.square(mean).sum())
    return float(np.median(products / np.maximum(sizes, np.finfo(np.float64).tiny)))
