"""Delineation of P, QRS and T in the median beat, from all leads together.

QRS begins and ends where slopes do. The slope of each lead is divided by a threshold: a fraction of its steepest slope
in QRS, or a multiple of its usual slope between waves if that is larger. QRS is the part around its middle in which
several leads exceed their thresholds, without a longer pause. One lead alone can be wrong, so the second to third
steepest lead decides, as in the rule of Laguna, Jane and Caminal (1994), by which other leads must confirm a mark.

P and T end where the trapezium between the steepest point of their last slope, a later reference point, and a point
on the curve has the largest area (Vazquez-Seisdedos et al. 2011). This needs no baseline and no threshold. It is done
lead by lead. The median over leads in which the wave is large enough is the mark, and the leads show its spread.
P begins where the mirrored curve ends.

P is a local bump before QRS: its amplitude over the mean of points before and after it. It exists if it repeats:
its amplitude exceeds the standard error over beats, and single beats resemble the median. Fibrillating atria do not
repeat, because their waves are independent of QRS.

Constant corrections remove the bias of the marks: of P to the observers of LUDB (its odd records), of QRS and T to the
program of the devices that recorded Chapman (its training part). LUDB's observers set marks of QRS about 10 ms farther
out on both sides, but limits such as 120 ms for bundle branch block are used with such programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.measurements.median_beat import MedianBeat
from clocs.measurements.smoothing import gaussian_filter

Values = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]
Samples = npt.NDArray[np.intp]

QRS_SMOOTHING, P_SMOOTHING, T_SMOOTHING = 0.005, 0.008, 0.012
"""Standard deviations in seconds of the Gaussian filters for QRS, P and T."""
QRS_SLOPE: Final = 0.1
"""Threshold of a lead, as a fraction of its steepest slope in QRS."""
QRS_NOISE: Final = 8.0
"""Threshold of a lead, as a multiple of its usual slope outside QRS."""
QUIET_QUANTILE: Final = 0.35
"""Quantile of the slopes outside QRS that is their usual slope between waves."""
QRS_PAUSE: Final = 0.01
"""Seconds without slopes that end QRS."""
QRS_HALF_WIDTH: Final = 0.1
"""Seconds around the middle of QRS that are not regarded as outside QRS."""
QRS_ONSET_SHIFT, QRS_OFFSET_SHIFT, T_OFFSET_SHIFT, P_OFFSET_SHIFT = -0.002, 0.002, 0.004, -0.009
"""Corrections of the marks in seconds."""
T_DELAY: Final = 0.05
"""Minimum seconds from the end of QRS to the peak of T."""
T_PEAK_LIMIT, T_END_LIMIT = 0.52, 0.64
"""Maximum seconds from the start of QRS to the peak and the end of T at an interval of 1 s. They grow with the root of
the interval."""
T_REACH, P_REACH_BEFORE, P_REACH_AFTER = 0.14, 0.09, 0.08
"""Seconds from the steepest point of a slope to the reference point of its trapezium."""
T_PEAK_WINDOW: Final = 0.065
"""Seconds around the common peak of T in which the peak of a lead lies."""
P_PEAK_WINDOW: Final = 0.03
"""Seconds around the common peak of P in which the peak of a lead lies."""
T_SLOPE_WINDOW, P_SLOPE_WINDOW = 0.14, 0.07
"""Seconds from a peak to the steepest point of its slope."""
P_BUMP: Final = 0.05
"""Seconds from the peak of P to the points over which its amplitude is measured."""
P_MARGIN: Final = 0.004
"""Seconds before the start of QRS at which P ends at the latest, because slopes begin earlier than the mark."""
P_WINDOW: Final = 0.36
"""Maximum seconds from the peak of P to the start of QRS."""
MIN_LEAD_SIZE: Final = 0.35
"""Size of a wave in a lead, relative to the median over leads, below which the lead does not count."""


@dataclass(frozen=True)
class WaveMarks:
    """Start and end of a wave of one or several beats, in samples of the median beat."""

    onset: Array
    """Start of the wave in each beat, of shape (beats,); NaN where it is not measured."""
    offset: Array
    """End of the wave in each beat, of shape (beats,)."""
    lead_onsets: Array
    """Start in each lead of the first beat, of shape (leads,); NaN for leads that do not count."""
    lead_offsets: Array
    """End in each lead of the first beat, of shape (leads,)."""
    peak: int
    """Common peak of the median beat."""


def delineate_qrs(beats: Values, middle: int, sampling_rate: float) -> WaveMarks:
    """Find start and end of QRS.

    Args:
        beats: Beats of shape (beats, leads, samples).
        middle: Sample of the middle of QRS.
        sampling_rate: Sampling rate in Hz.

    Returns:
        Marks of each beat.
    """
    slopes = np.abs(gaussian_filter(beats, QRS_SMOOTHING * sampling_rate, slope=True))
    half = round(QRS_HALF_WIDTH * sampling_rate)
    steepest = slopes[..., max(0, middle - half // 2) : middle + half // 2].max(axis=2)
    outside = np.concatenate([slopes[..., : max(1, middle - half)], slopes[..., middle + half :]], axis=2)
    quiet = _quantile(outside, QUIET_QUANTILE)
    threshold = np.maximum(QRS_SLOPE * steepest, QRS_NOISE * quiet)
    activity = slopes / np.maximum(threshold, np.finfo(np.float32).tiny)[..., None]
    num_leads = beats.shape[1]
    rank = 1 if num_leads < 4 else 2
    common = -np.partition(-activity, rank - 1, axis=1)[:, rank - 1]
    pause = max(1, round(QRS_PAUSE * sampling_rate))
    center = max(0, middle - half // 4)
    start = center + common[:, center : middle + half // 4].argmax(axis=1)
    onset, offset = _bounds(common > 1, start, pause)
    lead_onset, lead_offset = _bounds(activity[0] > 1, np.repeat(start[:1], num_leads), pause)
    earlier, later = QRS_ONSET_SHIFT * sampling_rate, QRS_OFFSET_SHIFT * sampling_rate
    return WaveMarks(
        onset + earlier,
        offset + later,
        lead_onset + earlier,
        lead_offset + later,
        middle,
    )


def _bounds(active: npt.NDArray[np.bool_], start: Samples, pause: int) -> tuple[Array, Array]:
    """Return the first and last active samples around a start, of rows (rows, samples), before a longer pause."""
    size = active.shape[1]
    index = np.arange(size)
    last = np.maximum.accumulate(np.where(active, index, -size), axis=1)  # last active sample up to here
    following = np.minimum.accumulate(np.where(active, index, 2 * size)[:, ::-1], axis=1)[:, ::-1]
    ends = active & (np.concatenate([following[:, 1:], np.full((len(active), 1), 2 * size)], axis=1) - index > pause)
    begins = active & (index - np.concatenate([np.full((len(active), 1), -size), last[:, :-1]], axis=1) > pause)
    column = start[:, None]
    onset = np.where(begins & (index <= column), index, 0).max(axis=1)
    offset = np.where(ends & (index >= column), index, size - 1).min(axis=1)
    return onset.astype(np.float64), offset.astype(np.float64)


def delineate_t(
    beats: Values, qrs_onset: float, qrs_offset: float, interval: float, sampling_rate: float, peak: int | None = None
) -> WaveMarks | None:
    """Find the end of T.

    Args:
        beats: Beats of shape (beats, leads, samples).
        qrs_onset: Start of QRS of the median beat.
        qrs_offset: End of QRS of the median beat.
        interval: Interval between beats in seconds.
        sampling_rate: Sampling rate in Hz.
        peak: Peak of T in the median beat; None to find it in the first beat.

    Returns:
        Marks of each beat, without starts; None if there is no room for T.
    """
    size, root = beats.shape[2], float(np.sqrt(interval))
    first = round(qrs_offset + T_DELAY * sampling_rate)
    end = min(size - 1, round(qrs_onset + min(T_END_LIMIT * root, interval - 0.05) * sampling_rate))
    limit = min(end - 2, round(qrs_onset + min(T_PEAK_LIMIT * root, interval - 0.14) * sampling_rate))
    if limit - first < 0.03 * sampling_rate:
        return None
    smooth = np.zeros((*beats.shape[:2], end + 1), np.float32)
    near = max(0, first - round(0.1 * sampling_rate))
    smooth[..., near:] = gaussian_filter(beats[..., near : end + 1], T_SMOOTHING * sampling_rate)
    before = max(1, round(qrs_onset - 0.008 * sampling_rate))
    level = np.median(beats[..., max(0, before - 8) : before], axis=2, keepdims=True)
    height = np.abs(smooth - level)
    if peak is None:
        peak = first + int(np.argmax(np.square(height[0, :, first:limit]).sum(axis=0)))
    reach = round(T_PEAK_WINDOW * sampling_rate)
    low, high = max(first, peak - reach), min(end, peak + reach)
    peaks = low + height[..., low:high].argmax(axis=2)
    offsets, sizes = _trapezium_end(
        smooth, peaks, round(T_SLOPE_WINDOW * sampling_rate), round(T_REACH * sampling_rate), end
    )
    marks = _over_leads(offsets, sizes) + T_OFFSET_SHIFT * sampling_rate
    unknown = np.full(marks.shape, np.nan)
    return WaveMarks(unknown[:, 0], _median_mark(marks), unknown[0], marks[0], peak)


@dataclass(frozen=True)
class PWave:
    """A bump before QRS, and how well it repeats."""

    marks: WaveMarks
    """Start and end of P in the median beat."""
    strength: float
    """Amplitude of the bump in the median beat, divided by its standard error over beats."""
    similarity: float
    """Median correlation of the bump in single beats with that of the median beat."""
    relative_size: float
    """Amplitude of the bump, divided by the largest bump elsewhere between T and QRS."""


def delineate_p(
    median: MedianBeat, qrs_onset: float, t_end: float, interval: float, sampling_rate: float
) -> PWave | None:
    """Find start and end of P, and measure how well it repeats.

    Args:
        median: The median beat.
        qrs_onset: Start of QRS.
        t_end: End of T in the median beat; the wave of the beat before ends one interval earlier.
        interval: Interval between beats in seconds.
        sampling_rate: Sampling rate in Hz.

    Returns:
        The P wave; None if there is no room for it between T and QRS.
    """
    end = round(qrs_onset - P_MARGIN * sampling_rate)
    width = round(P_BUMP * sampling_rate)
    first = max(width, round(qrs_onset - P_WINDOW * sampling_rate), round(t_end - (interval - 0.02) * sampling_rate))
    last = end - round(0.025 * sampling_rate)
    if last - first < 0.03 * sampling_rate:
        return None
    smooth = _smooth_before(median.values[None], end, sampling_rate)
    bump = _bump(smooth, width)[0]
    single = _bump(_smooth_before(median.beats, end, sampling_rate), width)
    count = len(single)
    error = _variance(single[..., first:last]) / count if count > 1 else np.inf
    power = np.square(bump).mean(axis=0)
    peak = first + int(np.argmax(power[first:last]))
    strength = float(np.sqrt(power[peak] / max(error, 1e-12)))
    window = slice(max(first, peak - width), peak + width)
    similarity = _similarity(single[..., window], bump[:, window])
    marks = _p_marks(smooth, bump[None], peak, (first, last), end, sampling_rate)
    away = np.abs(np.arange(first, last) - peak) > 1.6 * width
    others = power[first:last][away].max(initial=0.0)
    return PWave(marks, strength, similarity, float(np.sqrt(power[peak] / max(others, 1e-12))))


def p_of_beats(median: MedianBeat, p: PWave, qrs_onset: float, sampling_rate: float) -> WaveMarks:
    """Find start and end of P in single beats, around the peak in the median beat."""
    end = round(qrs_onset - P_MARGIN * sampling_rate)
    width = round(P_BUMP * sampling_rate)
    smooth = _smooth_before(np.nan_to_num(median.beats), end, sampling_rate)
    return _p_marks(
        smooth, _bump(smooth, width), p.marks.peak, (width, end - round(0.025 * sampling_rate)), end, sampling_rate
    )


def _p_marks(
    smooth: Values, bump: Values, peak: int, limits: tuple[int, int], end: int, sampling_rate: float
) -> WaveMarks:
    """Return start and end of P in beats of shape (beats, leads, samples)."""
    reach = round(P_PEAK_WINDOW * sampling_rate)
    low, high = max(limits[0], peak - reach), min(limits[1], peak + reach + 1)
    peaks = low + np.abs(bump[..., low:high]).argmax(axis=2)
    sizes = np.take_along_axis(np.abs(bump), peaks[..., None], axis=2)[..., 0]
    slope = round(P_SLOPE_WINDOW * sampling_rate)
    offsets, _ = _trapezium_end(smooth, peaks, slope, round(P_REACH_AFTER * sampling_rate), end)
    size = smooth.shape[2]
    mirrored = smooth[..., ::-1]
    onsets, _ = _trapezium_end(mirrored, size - 1 - peaks, slope, round(P_REACH_BEFORE * sampling_rate), size - 1)
    lead_onsets, lead_offsets = _over_leads(size - 1 - onsets, sizes), _over_leads(offsets, sizes)
    lead_offsets = lead_offsets + P_OFFSET_SHIFT * sampling_rate
    return WaveMarks(_median_mark(lead_onsets), _median_mark(lead_offsets), lead_onsets[0], lead_offsets[0], peak)


def _smooth_before(beats: Values, end: int, sampling_rate: float) -> Values:
    """Return smooth beats up to a sample near the start of QRS, and constant after it."""
    margin = round(2 * P_BUMP * sampling_rate)
    held = np.pad(beats[..., : max(2, end)], ((0, 0), (0, 0), (0, margin)), "edge")
    held[..., end:] = held[..., max(0, end - 2) : end].mean(axis=2, keepdims=True)
    return gaussian_filter(held, P_SMOOTHING * sampling_rate)


def _bump(values: Values, width: int) -> Values:
    """Return how far each sample lies above the mean of the samples before and after it."""
    bump = np.zeros_like(values)
    bump[..., width:-width] = values[..., width:-width] - 0.5 * (values[..., : -2 * width] + values[..., 2 * width :])
    return bump


def _variance(single: Values) -> float:
    """Return the variance over beats, as a mean over leads and samples."""
    complete = single[~np.isnan(single).any(axis=(1, 2))]
    return float(complete.var(axis=0, ddof=1).mean()) if len(complete) > 1 else np.inf


def _similarity(single: Values, typical: Values) -> float:
    """Return the median correlation of windows (beats, leads, samples) with a typical one, without centering."""
    rows = single.reshape(len(single), -1)
    rows = rows[~np.isnan(rows).any(axis=1)]
    if not len(rows):
        return 0.0
    flat = typical.reshape(-1)
    sizes = np.sqrt(np.square(rows).sum(axis=1) * np.square(flat).sum())
    return float(np.median(rows @ flat / np.maximum(sizes, 1e-12)))


def _trapezium_end(values: Values, peaks: Samples, slope: int, reach: int, end: int) -> tuple[Array, Values]:
    """Return the end of a wave after its peak in each row, and the steepest slope between them.

    Args:
        values: Smooth beats of shape (beats, leads, samples).
        peaks: Peak in each lead, of shape (beats, leads).
        slope: Maximum samples from a peak to its steepest point.
        reach: Samples from the steepest point to the reference point.
        end: Last sample that a wave may reach.
    """
    index = np.minimum(peaks[..., None] + np.arange(slope + 1), end)
    window = np.take_along_axis(values, index, axis=2)
    steps = np.diff(window, axis=2)
    sign = np.sign(window[..., :1] - window[..., -1:])
    steepest = (-steps * sign).argmax(axis=2)
    sizes = np.take_along_axis(np.abs(steps), steepest[..., None], axis=2)[..., 0]
    start = np.minimum(peaks + steepest, end)
    room = np.minimum(reach, end - start)[..., None]
    distance = np.arange(reach + 1)
    curve = np.take_along_axis(values, np.minimum(start[..., None] + distance, end), axis=2)
    area = sign * (curve[..., :1] - curve) * (2 * room - distance)
    best = np.where(distance <= room, area, -np.inf).argmax(axis=2)
    return (start + best).astype(np.float64), sizes


def _over_leads(marks: Array, sizes: Values) -> Array:
    """Replace marks of leads with a small wave by NaN."""
    return np.where(sizes >= MIN_LEAD_SIZE * np.median(sizes, axis=1, keepdims=True), marks, np.nan)


def _median_mark(marks: Array) -> Array:
    """Return the median over leads of marks (beats, leads) without NaN, which is slow in NumPy."""
    ordered = np.sort(marks, axis=1)  # NaN last
    count = np.maximum(np.isfinite(ordered).sum(axis=1), 1)
    middle = np.stack([(count - 1) // 2, count // 2], axis=1)
    return np.asarray(np.take_along_axis(ordered, middle, axis=1).mean(axis=1))


def _quantile(values: Values, fraction: float) -> Values:
    """Return a quantile over the last axis, without interpolation."""
    index = int(fraction * (values.shape[-1] - 1))
    return np.asarray(np.partition(values, index, axis=-1)[..., index])
