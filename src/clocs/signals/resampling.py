"""Changing the number of samples: by physical rate, or by plain stretching as the paper does."""

from __future__ import annotations

import functools
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


PRECISION = Fraction(1, 10**6)
"""Of a ratio of rates: over a day, a tenth of a second."""
TAPS = 10
"""Half of SciPy's polyphase filter, in samples of the lower rate."""


def resample(signal: Floats, sampling_rate: float, to_rate: float) -> Floats:
    """Resample (..., samples) from one rate to another, by a polyphase filter against aliasing.

    Beyond its ends a signal is taken to stay where it is, so that a part comes out as it does of the whole.
    """
    ratio = _ratio(sampling_rate, to_rate)
    if ratio == 1:
        return signal
    _refuse_missing(signal)
    from scipy.signal import resample_poly

    up, down = ratio.numerator, ratio.denominator
    taps = _filter(max(up, down)).astype(signal.dtype)
    return np.asarray(resample_poly(signal, up, down, axis=-1, window=taps, padtype="edge"), dtype=np.float32)


@functools.lru_cache(maxsize=64)
def _filter(highest: int) -> npt.NDArray[np.float64]:
    """Return SciPy's low-pass filter for a ratio with this larger number; designing it takes longer than a frame."""
    from scipy.signal import firwin

    return np.asarray(firwin(2 * TAPS * highest + 1, 1 / highest, window=("kaiser", 5.0)))


def source_window(
    start: npt.NDArray[np.int64], length: int, num_samples: npt.NDArray[np.int64], sampling_rate: float, to_rate: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return what windows at the new rate are made of: no more than the filter reaches.

    Args:
        start: First sample of each window at the new rate, (N,).
        length: Samples of a window at the new rate.
        num_samples: Samples of each window's recording, (N,).
        sampling_rate: Hz of the recordings.
        to_rate: Hz of the windows.

    Returns:
        First sample and end of each source window in its recording, and how many new samples come before ``start``.
    """
    ratio = _ratio(sampling_rate, to_rate)
    up, down = ratio.numerator, ratio.denominator
    reach = TAPS * max(1, ceil(1 / ratio)) + 1
    first = np.maximum(0, start * down // up - reach)
    first -= first % down  # where the old and the new samples meet
    end = np.minimum(num_samples, -(-(start + length) * down // up) + reach)
    return first, end, start - first // down * up


def resampled_length(num_samples: npt.NDArray[np.int64], sampling_rate: float, to_rate: float) -> npt.NDArray[np.int64]:
    """Samples that recordings of these lengths have at another rate."""
    ratio = _ratio(sampling_rate, to_rate)
    return num_samples * ratio.numerator // ratio.denominator


@functools.lru_cache(maxsize=1024)
def _ratio(sampling_rate: float, to_rate: float) -> Fraction:
    """To a millionth of it, by numbers as small as that allows, for the filter grows with them.

    Of the higher rate over the lower: for the other way 1 in 1,500 would become 1 in 1,000.
    """
    exact, most = Fraction(max(sampling_rate, to_rate) / min(sampling_rate, to_rate)), 1000
    slower = exact.limit_denominator(most)
    while abs(slower / exact - 1) > PRECISION:
        most *= 2
        slower = exact.limit_denominator(most)
    return slower if to_rate > sampling_rate else 1 / slower


def resample_to_length(signal: Floats, num_samples: int) -> Floats:
    """Turn (..., any) into (..., samples) by the Fourier method, whatever the rate becomes."""
    if signal.shape[-1] == num_samples:
        return signal
    _refuse_missing(signal)
    from scipy.signal import resample as fourier

    return np.asarray(fourier(signal, num_samples, axis=-1), dtype=np.float32)


def _refuse_missing(signal: Floats) -> None:
    if not np.isfinite(signal).all():
        raise ValueError("missing samples would spread over the whole signal; cut or refuse them before resampling")
