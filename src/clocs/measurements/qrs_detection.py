"""Detection of QRS complexes in all leads together.

The absolute slope in the QRS band (9 to 25 Hz) of each lead is averaged over a window of the width of a QRS complex
and divided by its usual height at QRS complexes; the leads are then averaged. Peaks of this curve are candidates. A
threshold that follows the heights of the last beats and of the last rejected candidates decides one after the other,
as Pan and Tompkins (1985) describe it; a long pause is searched again with a lower threshold.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

WINDOW: Final = 0.11
"""Seconds over which slopes are averaged."""
REFRACTORY: Final = 0.2
"""Minimum interval between beats in seconds."""
T_WAVE_INTERVAL: Final = 0.36
"""Seconds after a beat in which a lower candidate is its T wave."""
T_WAVE_HEIGHT: Final = 0.5
"""Height of a candidate soon after a beat, relative to this beat, below which it is a T wave."""
MEMORY: Final = 8
"""Number of beats and of rejected candidates whose heights determine the threshold."""
THRESHOLD: Final = 0.35
"""Position of the threshold between the heights of rejected candidates (0) and of beats (1)."""
SEARCH_BACK: Final = 1.66
"""A longer interval, relative to the mean of the last ones, is searched again."""
SEARCH_BACK_THRESHOLD: Final = 0.5
"""Factor of the threshold in a second search."""
MAX_GROWTH: Final = 1.5
"""A higher beat, relative to the others, counts as this much higher for the threshold."""

EXTRA_HEIGHT: Final = 0.6
"""Height of a beat, relative to its neighbours, below which it may be another wave."""
EXTRA_INTERVAL: Final = 1.25
"""Maximum interval without such a beat, relative to the usual one."""


def qrs_curve(slopes: Values, slope_rate: float) -> Values:
    """Return the curve with a peak at each QRS complex, of shape (slopes,), about 1 high.

    Args:
        slopes: Absolute slopes in the QRS band, of shape (leads, slopes).
        slope_rate: Their sampling rate in Hz.
    """
    from scipy.ndimage import uniform_filter1d

    width = max(1, round(WINDOW * slope_rate))
    curves = uniform_filter1d(uniform_filter1d(slopes, width, axis=1), max(1, width // 2), axis=1)
    second = max(1, round(slope_rate))
    count = max(1, curves.shape[1] // second)
    peaks = curves[:, : count * second].reshape(len(curves), count, -1).max(axis=2)
    heights = np.median(peaks, axis=1)
    heights[heights <= 0] = np.inf
    return np.asarray((curves / heights[:, None]).mean(axis=0))


def detect_qrs(curve: Values, slope_rate: float) -> Positions:
    """Detect QRS complexes.

    Args:
        curve: Curve of :func:`qrs_curve`.
        slope_rate: Its sampling rate in Hz.

    Returns:
        Positions of the beats in the curve, in ascending order.
    """
    from scipy.signal import find_peaks

    candidates = find_peaks(curve, distance=max(1, round(0.5 * REFRACTORY * slope_rate)))[0]
    if not len(candidates):
        return np.empty(0, np.intp)
    times, heights = (candidates / slope_rate).tolist(), curve[candidates].tolist()
    second = max(1, round(slope_rate))
    first = curve[: 8 * second]
    count = max(1, len(first) // second)
    level = float(np.median(first[: count * second].reshape(count, -1).max(axis=1))) if len(first) >= second else float(first.max())
    chosen = _drop_extra(_follow(times, heights, level), times, heights)
    return np.asarray(candidates[chosen], np.intp)


def _follow(times: list[float], heights: list[float], level: float) -> list[int]:
    """Return the indices of candidates that are beats."""
    beats: list[int] = []
    signal, noise, intervals = [level] * MEMORY, [0.0] * MEMORY, []
    skipped: list[int] = []

    def threshold() -> float:
        low, high = _median(noise), _median(signal)
        return low + THRESHOLD * (high - low)

    def accept(index: int) -> None:
        if beats:
            intervals.append(times[index] - times[beats[-1]])
            del intervals[:-MEMORY]
        beats.append(index)
        signal.append(min(heights[index], MAX_GROWTH * _median(signal)))
        del signal[0]

    for index, (time, height) in enumerate(zip(times, heights, strict=True)):
        if beats and len(intervals) >= 3:
            mean = sum(intervals) / len(intervals)
            if time - times[beats[-1]] > SEARCH_BACK * mean:
                limit = SEARCH_BACK_THRESHOLD * threshold()
                missed = [i for i in skipped if times[i] - times[beats[-1]] > T_WAVE_INTERVAL and heights[i] > limit and time - times[i] > REFRACTORY]
                if missed:
                    best = max(missed, key=heights.__getitem__)
                    accept(best)
                    skipped = [i for i in skipped if i > best]
        if beats:
            last = beats[-1]
            gap = time - times[last]
            if gap < REFRACTORY:
                if height > heights[last]:
                    beats[-1] = index
                continue
            if gap < T_WAVE_INTERVAL and height < T_WAVE_HEIGHT * heights[last]:
                noise.append(height); del noise[0]
                continue
        if height > threshold():
            accept(index)
            skipped = []
        else:
            skipped.append(index)
            noise.append(height); del noise[0]
    return beats


def _drop_extra(beats: list[int], times: list[float], heights: list[float]) -> list[int]:
    """Drop low beats without which the rhythm is regular: waves other than QRS, and noise."""
    kept = list(beats)
    position = 1
    while position < len(kept) - 1:
        near = kept[max(0, position - MEMORY) : position + MEMORY + 1]
        usual = _median([times[b] - times[a] for a, b in zip(near, near[1:], strict=False)])
        high = _median([heights[index] for index in near])
        before, index, after = kept[position - 1 : position + 2]
        span = times[after] - times[before]
        if heights[index] < EXTRA_HEIGHT * min(high, heights[before], heights[after]) and span < EXTRA_INTERVAL * usual:
            del kept[position]
        else:
            position += 1
    return kept


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
