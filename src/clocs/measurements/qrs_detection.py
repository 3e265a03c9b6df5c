"""Detection of QRS complexes in all leads together.

The absolute slope in the QRS band of each lead is averaged over a window of the width of a QRS complex and divided by
its usual height at QRS complexes. Then the leads are averaged. Peaks of this curve are candidates. As Pan and Tompkins
(1985) describe it, a threshold decides about one candidate after the other. It follows the heights of the last beats
and of the last rejected candidates, and a long pause is searched again with a lower threshold. At the end, a low beat
is dropped if the rhythm is regular without it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.measurements.smoothing import mean_filter
from clocs.signals.peaks import find_peaks

Values = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

WINDOW: Final = 0.11
"""Seconds over which slopes are averaged."""
REFRACTORY: Final = 0.24
"""Minimum interval between beats in seconds."""
T_WAVE_INTERVAL: Final = 0.3
"""Seconds after a beat in which a lower candidate is its T wave."""
T_WAVE_HEIGHT: Final = 0.5
"""Height of a candidate soon after a beat, relative to this beat, below which it is a T wave."""
MEMORY: Final = 12
"""Number of beats and of rejected candidates whose heights determine the threshold."""
START_SECONDS: Final = 8
"""Seconds at the start that determine the first threshold."""
THRESHOLD: Final = 0.35
"""Position of the threshold between the heights of rejected candidates (0) and of beats (1)."""
SEARCH_BACK: Final = 1.66
"""A longer interval, relative to the mean of the last ones, is searched again."""
SEARCH_BACK_THRESHOLD: Final = 0.5
"""Factor of the threshold in a second search."""
MAX_GROWTH: Final = 1.5
"""A higher beat, relative to the others, counts as this much higher for the threshold."""
EXTRA_HEIGHT: Final = 0.7
"""Height of a beat, relative to its neighbors, below which it may be another wave."""
EXTRA_INTERVAL: Final = 1.35
"""Maximum interval without such a beat, relative to the usual one."""


def qrs_curve(slopes: Values, slope_rate: float) -> Values:
    """Return a curve with a peak at each QRS complex, about 1 high.

    Args:
        slopes: Absolute slopes in the QRS band, of shape (leads, slopes).
        slope_rate: Their sampling rate in Hz.

    Returns:
        Curve of shape (slopes,).
    """
    width = max(1, round(WINDOW * slope_rate))
    curves = mean_filter(mean_filter(slopes, width), max(1, width // 2))
    heights = np.median(_peaks_per_second(curves, slope_rate), axis=1)
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
    candidates = find_peaks(curve, distance=max(1, round(0.1 * slope_rate)))
    if not len(candidates):
        return np.empty(0, np.intp)
    start = curve[None, : round(START_SECONDS * slope_rate)]
    level = float(np.median(_peaks_per_second(start, slope_rate)))
    follower = _Follower((candidates / slope_rate).tolist(), curve[candidates].tolist(), level)
    return np.asarray(candidates[follower.run()], np.intp)


def _peaks_per_second(curves: Values, slope_rate: float) -> Values:
    """Return the maximum of each second of curves (leads, samples), of shape (leads, seconds)."""
    second = min(curves.shape[1], max(1, round(slope_rate)))
    count = curves.shape[1] // second
    return np.asarray(curves[:, : count * second].reshape(len(curves), count, second).max(axis=2))


class _Follower:
    """Decides about candidates one after the other."""

    def __init__(self, times: list[float], heights: list[float], level: float) -> None:
        self.times, self.heights = times, heights
        self.signal, self.noise = [level] * MEMORY, [0.0] * MEMORY
        self.intervals: list[float] = []
        self.beats: list[int] = []
        self.skipped: list[int] = []

    def run(self) -> list[int]:
        """Return the indices of the candidates that are beats."""
        for index, height in enumerate(self.heights):
            self._search_back(index)
            gap = self.times[index] - self.times[self.beats[-1]] if self.beats else np.inf
            last = self.heights[self.beats[-1]] if self.beats else 0.0
            if gap < REFRACTORY:
                if height > last:
                    self.beats[-1] = index
            elif gap < T_WAVE_INTERVAL and height < T_WAVE_HEIGHT * last:
                self._reject(index)
            elif height > self._threshold():
                self._accept(index)
                self.skipped = []
            else:
                self.skipped.append(index)
                self._reject(index)
        return self._without_extra()

    def _threshold(self) -> float:
        low, high = _median(self.noise), _median(self.signal)
        return low + THRESHOLD * (high - low)

    def _accept(self, index: int) -> None:
        if self.beats:
            self.intervals = [*self.intervals[-MEMORY + 1 :], self.times[index] - self.times[self.beats[-1]]]
        self.beats.append(index)
        self.signal = [*self.signal[1:], min(self.heights[index], MAX_GROWTH * _median(self.signal))]

    def _reject(self, index: int) -> None:
        self.noise = [*self.noise[1:], self.heights[index]]

    def _search_back(self, index: int) -> None:
        """Accept the highest candidate in a long pause before a candidate."""
        if len(self.intervals) < 3:
            return
        time, last = self.times[index], self.times[self.beats[-1]]
        if time - last <= SEARCH_BACK * sum(self.intervals) / len(self.intervals):
            return
        limit = SEARCH_BACK_THRESHOLD * self._threshold()
        missed = [
            other
            for other in self.skipped
            if self.heights[other] > limit
            and self.times[other] - last > T_WAVE_INTERVAL
            and time - self.times[other] > REFRACTORY
        ]
        if missed:
            best = max(missed, key=self.heights.__getitem__)
            self._accept(best)
            self.skipped = [other for other in self.skipped if other > best]

    def _without_extra(self) -> list[int]:
        """Return the beats without low ones whose absence makes the rhythm regular: other waves, and noise."""
        kept, times, heights = list(self.beats), self.times, self.heights
        position = 1
        while position < len(kept) - 1:
            near = kept[max(0, position - MEMORY) : position + MEMORY + 1]
            usual = _median([times[b] - times[a] for a, b in pairwise(near)])
            before, index, after = kept[position - 1 : position + 2]
            high = min(_median([heights[other] for other in near]), heights[before], heights[after])
            if heights[index] < EXTRA_HEIGHT * high and times[after] - times[before] < EXTRA_INTERVAL * usual:
                del kept[position]
            else:
                position += 1
        return kept


def _median(values: list[float]) -> float:
    """Return the median of a short list, faster than NumPy."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])
