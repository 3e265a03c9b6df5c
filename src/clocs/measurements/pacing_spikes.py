"""Find pacing spikes, and remove them before beats are measured."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.measurements.smoothing import maximum_filter

Values = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

NARROW, WIDE = 0.004, 0.02
"""Seconds to both sides over which a spike stands out. A QRS complex stands out much more over the longer time."""
MIN_HEIGHT: Final = 0.1
"""Minimum height in mV over the narrow time, as a mean over leads."""
MIN_SHARPNESS: Final = 0.6
"""Minimum height over the narrow time, relative to that over the wide time."""
MIN_SPIKES_PER_SECOND: Final = 0.35
"""Minimum number of spikes per second. Fewer are artifacts."""
MIN_SAMPLING_RATE: Final = 250.0
"""Minimum sampling rate in Hz at which spikes are narrower than QRS complexes."""
COUPLING_WINDOW: Final = (-0.3, 0.03)
"""Seconds from the middle of QRS in which the spike of a paced beat is."""
MAX_DELAY_CHANGE: Final = 0.02
"""Maximum difference in seconds of the delays of spikes of paced beats from their median."""
MIN_COUPLED: Final = 0.3
"""Minimum fraction of beats with such a spike. Artifacts are at any time between beats."""
REMOVED: Final = 0.012
"""Seconds to both sides of a spike that are replaced by a line."""


def find_spikes(signal: Values, sampling_rate: float) -> Positions:
    """Return the samples of pacing spikes.

    Args:
        signal: Signal in mV of shape (leads, samples) without missing samples.
        sampling_rate: Sampling rate in Hz.

    Returns:
        Positions in ascending order; empty with fewer than ``MIN_SPIKES_PER_SECOND``.
    """
    if sampling_rate < MIN_SAMPLING_RATE or signal.shape[1] < sampling_rate:
        return np.empty(0, np.intp)
    narrow = _height(signal, max(1, round(NARROW * sampling_rate)))
    if narrow.max() < MIN_HEIGHT:
        return np.empty(0, np.intp)
    wide = _height(signal, round(WIDE * sampling_rate))
    reach = max(1, round(0.5 * WIDE * sampling_rate))
    around = maximum_filter(wide, reach)
    is_peak = narrow == maximum_filter(narrow, reach)
    found = np.flatnonzero(is_peak & (narrow > MIN_HEIGHT) & (narrow > MIN_SHARPNESS * around))
    return found if len(found) * sampling_rate >= MIN_SPIKES_PER_SECOND * signal.shape[1] else np.empty(0, np.intp)


def are_coupled(spikes: npt.NDArray[np.float64], beats: npt.NDArray[np.float64]) -> bool:
    """Return whether spikes precede beats by a constant delay, as those of a pacemaker do.

    Args:
        spikes: Times of spikes in seconds.
        beats: Times of the middle of QRS complexes in seconds.
    """
    if not len(spikes) or not len(beats):
        return False
    delays = spikes[None] - beats[:, None]
    nearest = delays[np.arange(len(beats)), np.abs(delays).argmin(axis=1)]
    inside = nearest[(nearest > COUPLING_WINDOW[0]) & (nearest < COUPLING_WINDOW[1])]
    constant = np.abs(inside - np.median(inside)) < MAX_DELAY_CHANGE if len(inside) else inside
    return bool(constant.sum() >= MIN_COUPLED * len(beats) and constant.sum() > 1)


def remove_spikes(signal: Values, spikes: Positions, sampling_rate: float) -> Values:
    """Replace spikes by lines."""
    cleaned = signal.copy()
    reach = round(REMOVED * sampling_rate)
    for spike in spikes:
        first, last = max(0, spike - reach), min(signal.shape[1] - 1, spike + reach)
        weight = np.linspace(0, 1, last - first + 1, dtype=np.float32)
        cleaned[:, first : last + 1] = signal[:, first, None] * (1 - weight) + signal[:, last, None] * weight
    return cleaned


def _height(signal: Values, reach: int) -> Values:
    """Return by how much samples stand out from those on both sides, as a mean over leads, of shape (samples,)."""
    before = signal[:, reach:-reach] - signal[:, : -2 * reach]
    after = signal[:, reach:-reach] - signal[:, 2 * reach :]
    heights = np.where(before * after > 0, np.minimum(np.abs(before), np.abs(after)), 0)
    return np.pad(heights.mean(axis=0), reach)
