"""Frontal axes of waves, from their areas in all limb leads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.signals.lead_equations import LIMB_LEADS

Values = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

MIN_AREA: Final = 0.1
"""Length of the frontal vector, relative to the area of the wave without signs, below which it has no axis."""


def frontal_vectors(
    beats: Values, leads: Sequence[str], start: float, end: float, level: tuple[float, float]
) -> Array | None:
    """Return the frontal vectors of a wave.

    The areas of I and II are fitted to those of all limb leads by least squares. In Einthoven's triangle, the
    horizontal part is I and the vertical part is aVF times 2 / sqrt(3).

    Args:
        beats: Beats of shape (beats, leads, samples).
        leads: Names of the leads.
        start: First sample of the wave.
        end: Sample after its last one.
        level: First sample of the baseline, and the sample after its last one.

    Returns:
        Horizontal (to the left) and vertical (downwards) part, and the mean area without signs, of shape (beats, 3);
        None with fewer than two independent limb leads.
    """
    rows = [row for row, lead in enumerate(leads) if lead in LIMB_LEADS]
    weights = np.array([LIMB_LEADS[leads[row]] for row in rows])
    if len(rows) < 2:
        return None
    first, last = max(0, round(start)), round(end)
    low = max(0, min(round(level[0]), round(level[1]) - 1))
    baseline = np.median(beats[:, rows, low : max(low + 1, round(level[1]))], axis=2, keepdims=True)
    wave = (beats[:, rows, first:last] - baseline).astype(np.float64)
    one, two = np.linalg.lstsq(weights, wave.sum(axis=2).T, rcond=None)[0]
    size = np.abs(wave).sum(axis=2).mean(axis=1)
    return np.stack([one, (two - one / 2) * 2 / math.sqrt(3), size], axis=1)


def axis_degrees(vectors: Array) -> Array:
    """Return the angles of frontal vectors in degrees, NaN for vectors that are too short to have one."""
    angles = np.degrees(np.arctan2(vectors[:, 1], vectors[:, 0]))
    length = np.hypot(vectors[:, 0], vectors[:, 1])
    return np.where(length > MIN_AREA * vectors[:, 2], angles, np.nan)


def angle_difference(one: Array | float, other: Array | float) -> Array:
    """Return the difference of angles in degrees, between -180 and 180."""
    return (np.asarray(one) - other + 180.0) % 360.0 - 180.0
