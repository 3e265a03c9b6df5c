"""Peaks of a curve, as ``scipy.signal.find_peaks`` returns them. Importing SciPy's package takes a second."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]


def find_peaks(curve: npt.NDArray[np.floating], *, distance: int, min_height: float = -np.inf) -> Positions:
    """Return the local maxima of a curve. Of peaks that are too close, the highest is kept.

    Args:
        curve: Curve of shape (samples,).
        distance: Minimum distance between peaks in samples.
        min_height: Minimum height of a peak.

    Returns:
        Positions of the peaks in ascending order. The position of a plateau is its middle.

    Example:
        >>> find_peaks(np.array([0, 2, 0, 1, 0, 3, 3, 3, 0]), distance=3).tolist()
        [1, 6]
    """
    if len(curve) < 3:
        return np.empty(0, np.intp)
    change = np.flatnonzero(curve[1:] != curve[:-1])
    first, last = np.concatenate([[0], change + 1]), np.concatenate([change, [len(curve) - 1]])
    heights = curve[first]
    inner = heights[1:-1]
    highest = np.flatnonzero((inner > heights[:-2]) & (inner > heights[2:]) & (inner >= min_height)) + 1
    peaks = (first[highest] + last[highest]) // 2
    return np.asarray(peaks[_are_apart(peaks, curve[peaks], distance)], np.intp)


def _are_apart(peaks: Positions, heights: npt.NDArray[np.floating], distance: int) -> npt.NDArray[np.bool_]:
    """Return which peaks remain if each one, from the highest on, removes those within a distance."""
    positions, kept = peaks.tolist(), [True] * len(peaks)
    for peak in np.argsort(heights)[::-1].tolist():
        if not kept[peak]:
            continue
        for direction in (-1, 1):
            other = peak + direction
            while 0 <= other < len(positions) and abs(positions[other] - positions[peak]) < distance:
                kept[other] = False
                other += direction
    return np.array(kept, np.bool_)
