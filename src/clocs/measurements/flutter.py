"""Signs of atrial flutter: a line in the spectrum between beats that is stronger than the beats' own frequencies."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.measurements.smoothing import fast_length

Values = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

FLUTTER_BAND: Final = (3.3, 7.5)
"""Frequencies of flutter waves in Hz."""
BEAT_BAND: Final = (0.8, 3.0)
"""Frequencies in Hz of beats, in which P and T waves have their strongest lines."""
LINE_WIDTH: Final = 0.25
"""Half width of a line in Hz."""
QRS_HALF_WIDTH: Final = 0.07
"""Seconds before and after the middle of QRS that are replaced by a line."""
LEAD_RANK: Final = 3
"""The lead with the third largest ratio decides, or the only one of fewer leads."""
FACTOR: Final = 5
"""Factor by which the sampling rate is reduced before the spectrum is computed."""


def flutter_ratio(values: Values, sampling_rate: float, positions: Positions) -> float:
    """Return the power of the strongest line of flutter, divided by that of the strongest line of the beats.

    Args:
        values: Filtered signal of shape (leads, samples).
        sampling_rate: Sampling rate in Hz.
        positions: Samples of the middle of QRS complexes.

    Returns:
        The ratio, above 1 in typical flutter and mostly below 1 in sinus rhythm below 110 beats per minute.
    """
    length = values.shape[1] // FACTOR
    coarse = values[:, : length * FACTOR].reshape(len(values), length, FACTOR).mean(axis=2)
    rate = sampling_rate / FACTOR
    reach = round(QRS_HALF_WIDTH * rate)
    known = np.ones(length, np.bool_)
    known[(positions[:, None] // FACTOR + np.arange(-reach, reach + 1)).clip(0, length - 1)] = False
    index = np.arange(length)
    if not known.any():
        return 0.0
    filled = np.stack([np.interp(index, index[known], row[known]) for row in coarse])
    size = fast_length(max(2 * length, round(16 * rate)))
    power = np.square(np.abs(np.fft.rfft(filled * np.hanning(length), size, axis=1)))
    step = rate / size
    width = max(1, round(LINE_WIDTH / step))
    total = np.cumsum(power, axis=1)
    lines = total[:, 2 * width :] - total[:, : -2 * width]
    frequency = (np.arange(lines.shape[1]) + width) * step
    flutter, beats = (
        lines[:, (frequency > low) & (frequency < high)].max(axis=1) for low, high in (FLUTTER_BAND, BEAT_BAND)
    )
    ratios = np.sort(flutter / np.maximum(beats, 1e-12))
    return float(ratios[-min(LEAD_RANK, len(ratios))])
