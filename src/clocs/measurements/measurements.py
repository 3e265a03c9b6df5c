"""Heart rate, intervals and axes of an ECG.

The modules beside this one describe the steps: filters, detection of QRS complexes, the median beat, delineation and
axes. A value is reported only where its waves are found and repeat. Otherwise the reason is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording
from clocs.measurements import axes, delineation
from clocs.measurements.filtering import filter_signal
from clocs.measurements.flutter import flutter_ratio
from clocs.measurements.median_beat import MedianBeat, make_median_beat
from clocs.measurements.pacing_spikes import are_coupled, find_spikes, remove_spikes
from clocs.measurements.qrs_detection import detect_qrs, qrs_curve
from clocs.measurements.results import NAMES, MarkedBeat, Measurement, Measurements

Values = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

MIN_SAMPLING_RATE: Final = 100.0
"""Minimum sampling rate in Hz."""
MIN_BEATS: Final = 3
"""Minimum number of beats."""
MIN_SPAN: Final = 0.5
"""Minimum fraction of the signal between the first and the last beat."""
MAX_MISSING: Final = 0.1
"""Maximum fraction of missing samples of a lead."""
MIN_LEAD_AGREEMENT: Final = 0.6
"""Minimum correlation of the beats of a lead with its median beat."""
MIN_CORRELATION: Final = 0.9
"""Minimum correlation of the beats with the median beat around QRS, over all leads."""
MAX_BACKGROUND, MAX_FAST_BACKGROUND = 0.4, 0.45
"""Maximum slope between beats, relative to that of QRS complexes, below and above ``FAST_RATE``."""
FAST_RATE: Final = 120.0
"""Heart rate above which slopes of neighboring beats overlap."""
MIN_GROUP: Final = 0.4
"""Minimum fraction of beats with the most frequent shape."""
MIN_RATE_GROUP, MIN_RATE_CORRELATION = 0.25, 0.8
"""Minimum fraction of beats of one shape and their minimum correlation for a heart rate."""
MIN_RELATIVE_SIZE: Final = 0.3
"""Minimum height of QRS after filtering, relative to the standard deviation of the lead before it."""
RATE_LIMITS: Final = (20.0, 250.0)
"""Limits of the heart rate in beats per minute."""
REGULAR_DEVIATION: Final = 0.1
"""Maximum difference of intervals from their median, as a fraction, in a regular rhythm."""
P_LIMITS, PR_LIMITS, QRS_LIMITS, QT_LIMITS = (40.0, 200.0), (80.0, 400.0), (40.0, 240.0), (200.0, 700.0)
"""Limits in ms of what can be a P duration, a PR interval, a QRS duration and a QT interval."""
MIN_P_STRENGTH: Final = {True: 5.0, False: 9.0}
"""Minimum strength of P waves in regular and irregular rhythms."""
MIN_P_SIMILARITY: Final = {True: 0.8, False: 0.9}
"""Minimum similarity of P waves in regular and irregular rhythms."""
FLUTTER_RATIO: Final = {True: 2.0, False: 0.9}
"""Ratio of flutter above which P waves are not measured, for regular and irregular rhythms."""
MAX_RATE_FOR_FLUTTER: Final = 100.0
"""Heart rate above which a regular rhythm has lines at the frequency of flutter itself."""
MAX_LEAD_SPREAD: Final = 45.0
"""Maximum spread over leads in ms of the end of T."""
MAD_TO_SD: Final = 1.4826
"""Factor from the median absolute deviation to the standard deviation of normal values."""
T_AXIS_DELAY: Final = 0.06
"""Seconds from the end of QRS to the part of T that determines its axis."""


def measure(
    recording: Recording | npt.NDArray[np.floating[Any]],
    sampling_rate: float | None = None,
    leads: Sequence[str] | None = None,
) -> Measurements:
    """Measure heart rate, intervals and axes from all leads together.

    Args:
        recording: A recording, or a signal in mV of shape (leads, samples) or (samples,). At least 5 s are useful.
        sampling_rate: Sampling rate of a signal in Hz. Below 100 Hz, nothing is measured.
        leads: Names of the leads of a signal. Without names, axes are not measured.

    Returns:
        Measurements. A value that cannot be measured is None and has a reason.

    Raises:
        ValueError: The sampling rate of a signal is missing, or its names do not match its leads.

    Example:
        >>> from clocs.signals.heart_vector import make_heart
        >>> from clocs.signals.simulation import simulate
        >>> random = np.random.default_rng(0)
        >>> simulation = simulate(("SR",), make_heart(random), 10, 500, random)
        >>> signal = simulation.draw(("I", "II", "V2"), 0.5, random) / 1000
        >>> measured = clocs.measure(signal, 500, ("I", "II", "V2"))
        >>> bool(abs(measured.qrs_duration.value - 1000 * simulation.truth().qrs[0]) < 15)
        True
    """
    signal, sampling_rate, names = _as_signal(recording, sampling_rate, leads)
    if sampling_rate < MIN_SAMPLING_RATE:
        return _nothing(f"sampling rate below {MIN_SAMPLING_RATE:g} Hz", names)
    usable = _usable_leads(signal)
    if not len(usable):
        return _nothing("all leads are flat")
    signal, names = _fill_gaps(signal[usable]), tuple(names[row] for row in usable)
    if signal.shape[1] < 2 * sampling_rate:
        return _nothing("shorter than 2 s", names)
    spikes = find_spikes(signal, sampling_rate)
    if len(spikes):
        signal = remove_spikes(signal, spikes, sampling_rate)
    return _analyze(signal, sampling_rate, names, spikes / sampling_rate)


def _analyze(signal: Values, sampling_rate: float, leads: tuple[str, ...], spikes: Array) -> Measurements:
    """Measure a signal without gaps, again without the leads whose beats do not resemble each other."""
    filtered = filter_signal(signal, sampling_rate)
    curve = qrs_curve(filtered.slopes, filtered.slope_rate)
    at = detect_qrs(curve, filtered.slope_rate)
    paced = are_coupled(spikes, at / filtered.slope_rate)
    if len(at) < MIN_BEATS or at[-1] - at[0] < MIN_SPAN * len(curve):
        return _nothing(f"fewer than {MIN_BEATS} beats, or only in a part of the signal", leads, len(at), paced=paced)
    positions = np.rint(at * (filtered.sampling_rate / filtered.slope_rate)).astype(np.intp)
    median = make_median_beat(filtered.values, filtered.sampling_rate, positions)
    if median is not None and len(leads) > 1:
        agreement = lead_agreement(median, filtered.sampling_rate)
        good = np.flatnonzero(agreement >= MIN_LEAD_AGREEMENT)
        if 0 < len(good) < len(leads):
            return _analyze(signal[good], sampling_rate, tuple(leads[row] for row in good), spikes)
    intervals = np.diff(at) / filtered.slope_rate
    background = float(np.median(curve) / np.median(curve[at]))
    if median is None or not _has_beats(median, signal, 60 / float(intervals.mean()), background):
        return _nothing("no clear beats", leads, len(at), paced=paced)
    found: dict[str, Any] = dict(_rhythm(intervals))
    reason = _rejection(median)
    beat = None
    if reason:
        found |= {name: Measurement(reason=reason) for name in NAMES if name not in found}
    else:
        atria = _atrial_reason(filtered.values, filtered.sampling_rate, positions, intervals, paced=paced)
        waves, marks = _measure_waves(median, filtered.sampling_rate, leads, intervals, atria)
        found |= waves
        seconds = tuple((median.positions / filtered.sampling_rate).tolist())
        beat = MarkedBeat(median.values, filtered.sampling_rate, leads, marks, median.middle, seconds)
    return Measurements(
        **found,
        regular=_is_regular(intervals),
        num_beats=len(at),
        num_median_beats=len(median.beats),
        paced=paced,
        leads=leads,
        beat=beat,
    )


def lead_agreement(median: MedianBeat, sampling_rate: float) -> Array:
    """Return the median correlation of the beats of each lead with its median beat around QRS, of shape (leads,)."""
    half = round(0.1 * sampling_rate)
    window = slice(max(0, median.middle - half), median.middle + half)
    single, typical = np.nan_to_num(median.beats[..., window]), median.values[:, window]
    single = single - single.mean(axis=2, keepdims=True)
    typical = typical - typical.mean(axis=1, keepdims=True)
    sizes = np.sqrt(np.square(single).sum(axis=2) * np.square(typical).sum(axis=1))
    return np.asarray(np.median(np.einsum("bls,ls->bl", single, typical) / np.maximum(sizes, 1e-12), axis=0))


def _has_beats(median: MedianBeat, signal: Values, rate: float, background: float) -> bool:
    """Return whether detected beats are clear, resemble each other, and are more than what is left of hum or drift."""
    clear = background <= (MAX_FAST_BACKGROUND if rate > FAST_RATE else MAX_BACKGROUND)
    alike = median.group.mean() >= MIN_RATE_GROUP and median.correlation >= MIN_RATE_CORRELATION
    height = np.ptp(median.values, axis=1) / np.maximum(signal.std(axis=1), 1e-12)
    return bool(clear and alike and RATE_LIMITS[0] <= rate <= RATE_LIMITS[1] and height.max() >= MIN_RELATIVE_SIZE)


def _rejection(median: MedianBeat) -> str:
    """Return why no wave is measured, empty if waves can be measured."""
    if median.group.mean() < MIN_GROUP or len(median.beats) < MIN_BEATS:
        return "too few beats of one shape"
    if median.correlation < MIN_CORRELATION:
        return "beats differ too much"
    return ""


def _rhythm(intervals: Array) -> dict[str, Measurement]:
    """Return rate and variation of the intervals between beats in seconds."""
    mean = float(intervals.mean())
    return {
        "heart_rate": Measurement(60 / mean, _spread(60 / intervals)),
        "rr_variation": Measurement(100 * float(intervals.std()) / mean),
    }


def _is_regular(intervals: Array) -> bool:
    """Return whether nine of ten intervals are close to their median."""
    return bool(np.mean(np.abs(intervals / np.median(intervals) - 1) <= REGULAR_DEVIATION) >= 0.9)


def _atrial_reason(
    values: Values, sampling_rate: float, positions: npt.NDArray[np.intp], intervals: Array, *, paced: bool
) -> str:
    """Return why P waves are not measured, empty if they can be measured."""
    if paced:
        return "pacing spikes"
    regular = _is_regular(intervals)
    if regular and 60 / intervals.mean() > MAX_RATE_FOR_FLUTTER:
        return ""
    ratio = flutter_ratio(values, sampling_rate, positions)
    return "atrial activity as in flutter or fibrillation" if ratio > FLUTTER_RATIO[regular] else ""


def _measure_waves(
    median: MedianBeat, sampling_rate: float, leads: tuple[str, ...], intervals: Array, atrial_reason: str
) -> tuple[dict[str, Measurement], dict[str, float]]:
    """Return durations, intervals and axes of the waves, and the marks of the median beat in samples."""
    ms = 1000 / sampling_rate
    interval, mean = float(np.median(intervals)), float(intervals.mean())
    single = np.nan_to_num(median.beats) if np.isnan(median.beats).any() else median.beats
    stack = np.concatenate([median.values[None], single])
    qrs = delineation.delineate_qrs(stack, median.middle, sampling_rate)
    onset, offset = float(qrs.onset[0]), float(qrs.offset[0])
    found = {"qrs_duration": _difference(qrs.offset, qrs.onset, qrs.lead_offsets, qrs.lead_onsets, ms, QRS_LIMITS)}
    marks: dict[str, float] = {}
    if found["qrs_duration"].value is None:
        return {name: found["qrs_duration"] for name in NAMES if name not in ("heart_rate", "rr_variation")}, marks
    marks |= {"qrs_onset": onset, "qrs_offset": offset}
    t = delineation.delineate_t(stack, onset, offset, interval, sampling_rate)
    found["qt_interval"] = _qt(qrs, t, ms)
    t_end = float(t.offset[0]) if t is not None else math.nan
    if found["qt_interval"].value is not None:
        marks["t_offset"] = t_end
    found["qtc_bazett"] = _scaled(found["qt_interval"], mean**-0.5)
    found["qtc_fridericia"] = _scaled(found["qt_interval"], mean ** (-1 / 3))
    end = t_end if t is not None else offset + 0.2 * sampling_rate
    p = None if atrial_reason else delineation.delineate_p(median, onset, end, interval, sampling_rate)
    found["pr_interval"], found["p_duration"] = _p_values(median, p, qrs, sampling_rate, _is_regular(intervals))
    if atrial_reason:
        found["pr_interval"] = found["p_duration"] = Measurement(reason=atrial_reason)
    if p is not None and found["pr_interval"].value is not None:
        marks |= {"p_onset": float(p.marks.onset[0]), "p_offset": float(p.marks.offset[0])}
    level = (onset - 0.024 * sampling_rate, onset - 0.008 * sampling_rate)
    found["qrs_axis"] = _axis(stack, leads, (onset, offset), level)
    span = (offset + T_AXIS_DELAY * sampling_rate, t_end)
    found["t_axis"] = (
        _axis(stack, leads, span, level) if "t_offset" in marks else Measurement(reason=found["qt_interval"].reason)
    )
    return found, marks


def _qt(qrs: delineation.WaveMarks, t: delineation.WaveMarks | None, ms: float) -> Measurement:
    """Return the QT interval."""
    if t is None:
        return Measurement(reason="no room for a T wave between beats")
    value = _difference(t.offset, qrs.onset, t.lead_offsets, qrs.lead_onsets, ms, QT_LIMITS)
    if value.value is not None and (_spread(t.lead_offsets) or 0) * ms > MAX_LEAD_SPREAD:
        return Measurement(reason="leads disagree on the end of T")
    return value


def _p_values(
    median: MedianBeat, p: delineation.PWave | None, qrs: delineation.WaveMarks, sampling_rate: float, regular: bool
) -> tuple[Measurement, Measurement]:
    """Return PR interval and P duration."""
    ms = 1000 / sampling_rate
    if p is None:
        return (Measurement(reason="no room for a P wave between T and QRS"),) * 2
    if p.strength < MIN_P_STRENGTH[regular] or p.similarity < MIN_P_SIMILARITY[regular]:
        return (Measurement(reason="no repeating P wave"),) * 2
    single = delineation.p_of_beats(median, p, float(qrs.onset[0]), sampling_rate)
    onset, offset = (
        np.concatenate([p.marks.onset, single.onset]),
        np.concatenate([p.marks.offset, single.offset]),
    )
    pr = _difference(qrs.onset, onset, qrs.lead_onsets, p.marks.lead_onsets, ms, PR_LIMITS)
    duration = _difference(offset, onset, p.marks.lead_offsets, p.marks.lead_onsets, ms, P_LIMITS)
    if pr.value is None or duration.value is None:
        return (Measurement(reason=pr.reason or duration.reason),) * 2
    return pr, duration


def _difference(
    end: Array, start: Array, lead_ends: Array, lead_starts: Array, ms: float, limits: tuple[float, float]
) -> Measurement:
    """Return the time between marks. The first row belongs to the median beat, the others to single beats."""
    value = float(end[0] - start[0]) * ms
    if not limits[0] <= value <= limits[1]:
        return Measurement(reason=f"{value:.0f} ms is implausible")
    leads = (lead_ends - lead_starts) * ms
    return Measurement(value, _spread((end[1:] - start[1:]) * ms), _spread(leads) if len(leads) > 1 else None)


def _axis(beats: Values, leads: tuple[str, ...], span: tuple[float, float], level: tuple[float, float]) -> Measurement:
    """Return a frontal axis."""
    vectors = axes.frontal_vectors(beats, leads, *span, level)
    if vectors is None:
        return Measurement(reason="fewer than two limb leads")
    degrees = axes.axis_degrees(vectors)
    if math.isnan(degrees[0]):
        return Measurement(reason="the wave has no clear direction")
    return Measurement(float(degrees[0]), _spread(axes.angle_difference(degrees[1:], degrees[0])))


def _scaled(measurement: Measurement, factor: float) -> Measurement:
    """Return a measurement with value and spread multiplied by a factor."""
    value, beats, leads = (
        None if part is None else part * factor
        for part in (measurement.value, measurement.beat_spread, measurement.lead_spread)
    )
    return Measurement(value, beats, leads, measurement.reason)


def _spread(values: Array) -> float | None:
    """Return the median absolute deviation, scaled to a standard deviation; None with fewer than two values."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return None
    return MAD_TO_SD * float(np.median(np.abs(values - np.median(values))))


def _as_signal(
    recording: Recording | npt.NDArray[np.floating[Any]], sampling_rate: float | None, leads: Sequence[str] | None
) -> tuple[Values, float, tuple[str, ...]]:
    """Return signal, sampling rate and lead names of the input."""
    if isinstance(recording, Recording):
        signal, sampling_rate, leads = recording.physical(), recording.sampling_rate, recording.leads
    else:
        signal = np.atleast_2d(np.asarray(recording, np.float32))
    names = tuple(leads) if leads is not None else tuple(f"lead {row + 1}" for row in range(len(signal)))
    if sampling_rate is None:
        raise ValueError("Expected a sampling rate with a signal. Pass `sampling_rate=` in Hz.")
    if signal.ndim != 2 or len(names) != len(signal):
        raise ValueError(f"Expected a signal of shape (leads, samples) with one name per lead, got {signal.shape}.")
    return signal, sampling_rate, names


def _usable_leads(signal: Values) -> npt.NDArray[np.intp]:
    """Return the rows that are not flat and have few missing samples."""
    if not signal.size:
        return np.empty(0, np.intp)
    present = np.isfinite(signal)
    flat = np.where(present, signal, -np.inf).max(axis=1) <= np.where(present, signal, np.inf).min(axis=1)
    return np.flatnonzero((present.mean(axis=1) >= 1 - MAX_MISSING) & ~flat)


def _fill_gaps(signal: Values) -> Values:
    """Replace missing samples by lines."""
    present = np.isfinite(signal)
    if present.all():
        return signal
    filled = signal.copy()
    index = np.arange(signal.shape[1])
    for row, known in zip(filled, present, strict=True):
        row[~known] = np.interp(index[~known], index[known], row[known])
    return filled


def _nothing(reason: str, leads: tuple[str, ...] = (), num_beats: int = 0, *, paced: bool = False) -> Measurements:
    """Return measurements without values."""
    empty: dict[str, Any] = {name: Measurement(reason=reason) for name in NAMES}
    return Measurements(**empty, regular=None, num_beats=num_beats, num_median_beats=0, paced=paced, leads=leads)
