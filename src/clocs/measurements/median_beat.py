"""The median beat: beats of the most frequent shape, aligned by correlation over all leads.

Beats are compared with several of them at a low sampling rate, and the beat that resembles the most others defines the
group. Its beats are aligned with their median at the full sampling rate. A median over beats removes noise, ectopic
beats and atrial activity that is independent of the QRS complexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Values = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

COARSE_FACTOR: Final = 4
"""Factor of the sampling rates of the analysis and of the comparison of beats."""
HALF_WINDOW: Final = 0.1
"""Seconds before and after the middle of QRS in which beats are compared."""
MAX_SHIFT: Final = 0.05
"""Maximum shift in seconds when beats are compared."""
FINE_SHIFT: Final = 0.016
"""Maximum shift in seconds when beats are aligned."""
MIN_CORRELATION: Final = 0.8
"""Minimum correlation of two beats of one shape."""
SIZE_LIMITS: Final = (0.5, 2.0)
"""Limits of the size of a beat, relative to another of its shape."""
MAX_SEEDS: Final = 16
"""Number of beats with which the others are compared."""
BEFORE, AFTER = 0.45, 0.72
"""Maximum seconds of the median beat before and after the middle of QRS."""
MIN_RELATIVE_INTERVAL, MAX_RELATIVE_INTERVAL = 0.85, 1.25
"""Limits of the interval before a beat, relative to the median interval. Other beats are left out of the median if at
least half of the group remains."""


@dataclass(frozen=True)
class MedianBeat:
    """The median beat of a recording, and the beats of which it is made."""

    values: Values
    """Median beat of shape (leads, samples)."""
    beats: Values
    """Aligned beats of shape (beats, leads, samples). Samples outside the recording are NaN."""
    middle: int
    """Sample in the median beat of the middle of QRS."""
    positions: Positions
    """Sample in the signal of the middle of QRS of each beat in ``beats``."""
    group: npt.NDArray[np.bool_]
    """True if each detected beat has the most frequent shape, of shape (detected beats,)."""
    correlation: float
    """Median correlation of the beats with the median beat around QRS."""


def make_median_beat(values: Values, sampling_rate: float, positions: Positions) -> MedianBeat | None:
    """Make the median beat of a signal.

    Args:
        values: Filtered signal of shape (leads, samples).
        sampling_rate: Its sampling rate in Hz.
        positions: Samples at which QRS complexes were detected.

    Returns:
        The median beat; None with fewer than two beats of one shape.
    """
    if len(positions) < 2:
        return None
    shifts, group = _find_group(values, sampling_rate, positions)
    if group.sum() < 2:
        return None
    interval = float(np.median(np.diff(positions))) / sampling_rate
    half, reach = round(HALF_WINDOW * sampling_rate), round(FINE_SHIFT * sampling_rate)
    margin = half + 3 * reach
    inside = (positions + shifts >= margin) & (positions + shifts < values.shape[1] - margin)
    chosen = _typical_intervals(positions, group & inside)
    at = positions[chosen] + shifts[chosen]
    if len(at) < 2:
        return None
    correlation = np.ones(len(at))
    for _ in range(2):
        template = np.median(_cut(values, at, half, half), axis=0)
        at, correlation = _align(values, at, template, half, reach)
    before = round(min(BEFORE, 0.6 * interval + 0.1) * sampling_rate)
    after = round(min(AFTER, interval - 0.06) * sampling_rate)
    beats = _cut(values, at, before, max(after, half))
    complete = ~np.isnan(beats[:, 0]).any(axis=1)
    if complete.sum() >= min(3, len(at)):
        beats, at, correlation = beats[complete], at[complete], correlation[complete]
    median = np.nanmedian(beats, axis=0) if np.isnan(beats).any() else np.median(beats, axis=0)
    return MedianBeat(np.nan_to_num(median), beats, before, at, group, float(np.median(correlation)))


def _find_group(values: Values, sampling_rate: float, positions: Positions) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """Return the shift of each beat to the most typical one, and whether it has the same shape."""
    length = values.shape[1] // COARSE_FACTOR
    coarse = values[:, : length * COARSE_FACTOR].reshape(len(values), length, COARSE_FACTOR).mean(axis=2)
    rate = sampling_rate / COARSE_FACTOR
    half, reach = round(HALF_WINDOW * rate), round(MAX_SHIFT * rate)
    beats = np.nan_to_num(_cut(coarse, positions // COARSE_FACTOR, half + reach, half + reach))
    windows = sliding_window_view(beats, 2 * half, axis=2)[:, :, : 2 * reach + 1]  # (beats, leads, shifts, window)
    windows = windows - windows.mean(axis=3, keepdims=True)
    rows = np.ascontiguousarray(windows.transpose(0, 2, 1, 3)).reshape(len(beats), 2 * reach + 1, -1)
    sizes = np.sqrt(np.einsum("bsw,bsw->bs", rows, rows)) + np.finfo(np.float32).tiny
    seeds = np.unique(np.linspace(0, len(beats) - 1, min(MAX_SEEDS, len(beats))).round().astype(int))
    seed_sizes = sizes[seeds, reach]
    correlation = (rows @ rows[seeds, reach].T) / (sizes[:, :, None] * seed_sizes)  # (beats, shifts, seeds)
    best = correlation.argmax(axis=1)  # (beats, seeds)
    score = np.take_along_axis(correlation, best[:, None], axis=1)[:, 0]
    ratio = np.take_along_axis(sizes, best, axis=1) / seed_sizes
    alike = (score > MIN_CORRELATION) & (ratio > SIZE_LIMITS[0]) & (ratio < SIZE_LIMITS[1])
    seed = int(np.argmax(alike.sum(axis=0) + (score * alike).mean(axis=0)))
    return (best[:, seed] - reach) * COARSE_FACTOR, alike[:, seed]


def _typical_intervals(positions: Positions, group: npt.NDArray[np.bool_]) -> Positions:
    """Return the beats of a group that follow an interval of usual length, or all if these are too few."""
    relative = np.diff(positions, prepend=np.nan) / np.median(np.diff(positions))
    usual = group & (relative > MIN_RELATIVE_INTERVAL) & (relative < MAX_RELATIVE_INTERVAL)
    usual[0] = group[0]
    enough = usual.sum() >= max(3, 0.5 * group.sum())
    return np.flatnonzero(usual if enough else group)


def _align(
    values: Values, at: Positions, template: Values, half: int, reach: int
) -> tuple[Positions, npt.NDArray[np.float64]]:
    """Shift beats to the best correlation with a template of shape (leads, 2 * half)."""
    beats = np.nan_to_num(_cut(values, at, half + reach, half + reach))
    windows = sliding_window_view(beats, 2 * half, axis=2)[:, :, : 2 * reach + 1]
    means = windows.mean(axis=3)
    template = template - template.mean(axis=1, keepdims=True)
    products = np.einsum("blsw,lw->bs", windows, template, optimize=True)
    squares = (np.einsum("blsw,blsw->bs", windows, windows) - 2 * half * np.square(means).sum(axis=1)).clip(1e-12)
    correlation = products / np.sqrt(squares * np.square(template).sum() + 1e-12)
    best = correlation.argmax(axis=1)
    return at + best - reach, correlation[np.arange(len(at)), best]


def _cut(values: Values, at: Positions, before: int, after: int) -> Values:
    """Cut windows of shape (beats, leads, before + after), NaN outside the signal."""
    index = at[:, None] + np.arange(-before, after)
    inside = (index >= 0) & (index < values.shape[1])
    windows = values[:, index.clip(0, values.shape[1] - 1)].transpose(1, 0, 2)
    return windows if inside.all() else np.where(inside[:, None], windows, np.float32(np.nan))
