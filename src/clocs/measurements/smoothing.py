"""Filters of signals with NumPy alone, because importing SciPy takes as long as classifying an ECG.

Results are those of ``scipy.ndimage``: sums are made in double precision, in the same order. Before its start and after
its end a signal is mirrored, or held constant by :func:`gaussian_filter`.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]


def mean_filter(values: Values, width: int) -> Values:
    """Return the running mean over ``width`` samples, of signals of shape (..., samples)."""
    num_samples, before = values.shape[-1], width // 2
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(before, width - 1 - before)], "symmetric")
    total = np.empty(values.shape)
    total[..., 0] = np.cumsum(padded[..., :width], axis=-1, dtype=float)[..., -1]
    np.subtract(padded[..., width:], padded[..., : num_samples - 1], out=total[..., 1:], dtype=float)
    np.cumsum(total, axis=-1, out=total)
    return (total / width).astype(np.float32)


def maximum_filter(values: Values, reach: int) -> Values:
    """Return the running maximum over ``reach`` samples to both sides, of a signal of shape (samples,)."""
    size, width = 1, 2 * reach + 1
    largest = np.pad(values, reach, "edge")  # of ``size`` samples from each one on
    while 2 * size <= width:
        largest = np.maximum(largest[:-size], largest[size:])
        size *= 2
    num_samples = len(values)
    return np.maximum(largest[:num_samples], largest[width - size :][:num_samples])


def gaussian_filter(values: Values, sigma: float, *, slope: bool = False) -> Values:
    """Smooth signals of shape (..., samples) with a Gaussian of three standard deviations to both sides.

    Args:
        values: The signals.
        sigma: Standard deviation in samples.
        slope: True to return slopes per sample of the smooth signals.
    """
    num_samples, reach = values.shape[-1], int(3 * sigma + 0.5)
    position = np.arange(reach + 1)
    weights = np.exp(-0.5 / sigma**2 * position**2)
    weights /= weights[0] + 2 * weights[1:].sum()
    if slope:
        weights *= position / sigma**2
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(reach, reach)], "edge").astype(float)
    total = padded[..., reach : reach + num_samples] * weights[0]
    pair = np.empty_like(total)
    combine = np.subtract if slope else np.add
    for shift in range(reach, 0, -1):
        after, before = (padded[..., first : first + num_samples] for first in (reach + shift, reach - shift))
        combine(after, before, out=pair)
        pair *= weights[shift]
        total += pair
    return np.asarray(total, np.float32)


@functools.lru_cache(maxsize=1024)
def fast_length(num_samples: int) -> int:
    """Return the smallest number that is at least ``num_samples`` and has no prime factor above 5.

    Fourier transforms of such lengths are fast.
    """
    best = 1 << max(0, num_samples - 1).bit_length()
    five = 1
    while five < best:
        odd = five
        while odd < best:
            best = min(best, odd << max(0, -(-num_samples // odd) - 1).bit_length())
            odd *= 3
        five *= 5
    return best
