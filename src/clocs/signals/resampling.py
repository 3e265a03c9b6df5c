"""Changing the number of samples: by physical rate, or by plain stretching as the paper does."""

from __future__ import annotations

import functools
from fractions import Fraction
from math import ceil, floor

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


PRECISION = Fraction(1, 10**6)
"""Of a ratio of rates: over a day, a tenth of a second."""
TAPS = 10
"""Half of SciPy's polyphase filter, in samples of the lower rate."""


def resample(signal: Floats, rate: float, to_rate: float) -> Floats:
    """Resample (..., samples) from one rate to another, by a polyphase filter against aliasing.

    Beyond its ends a signal is taken to stay where it is, so that a part comes out as it does of the whole.
    """
    ratio = _ratio(rate, to_rate)
    if ratio == 1:
        return signal
    _refuse_missing(signal)
    from scipy.signal import resample_poly

    return np.asarray(
        resample_poly(signal, ratio.numerator, ratio.denominator, axis=-1, padtype="edge"), dtype=np.float32
    )


def source_window(start: int, length: int, samples: int, rate: float, to_rate: float) -> tuple[int, int, int]:
    """What ``length`` samples from ``start`` on, at the new rate, are made of: no more than the filter reaches.

    First sample and end of it in a recording of so many samples, and how many new ones come before ``start``.
    """
    ratio = _ratio(rate, to_rate)
    reach = TAPS * max(1, ceil(1 / ratio)) + 1
    first = max(0, floor(start / ratio) - reach)
    first -= first % ratio.denominator  # where the old and the new samples meet
    end = min(samples, ceil((start + length) / ratio) + reach)
    return first, end, start - int(first * ratio)


def resampled_length(samples: npt.NDArray[np.int64], rate: float, to_rate: float) -> npt.NDArray[np.int64]:
    """Samples that recordings of these lengths have at another rate."""
    ratio = _ratio(rate, to_rate)
    return samples * ratio.numerator // ratio.denominator


@functools.lru_cache(maxsize=1024)
def _ratio(rate: float, to_rate: float) -> Fraction:
    """To a millionth of it, by numbers as small as that allows, for the filter grows with them.

    Of the higher rate over the lower: for the other way 1 in 1,500 would become 1 in 1,000.
    """
    exact, most = Fraction(max(rate, to_rate) / min(rate, to_rate)), 1000
    slower = exact.limit_denominator(most)
    while abs(slower / exact - 1) > PRECISION:
        most *= 2
        slower = exact.limit_denominator(most)
    return slower if to_rate > rate else 1 / slower


def stretch(signal: Floats, samples: int) -> Floats:
    """Turn (..., any) into (..., samples) by the Fourier method, whatever the rate becomes."""
    if signal.shape[-1] == samples:
        return signal
    _refuse_missing(signal)
    from scipy.signal import resample as fourier

    return np.asarray(fourier(signal, samples, axis=-1), dtype=np.float32)


def _refuse_missing(signal: Floats) -> None:
    if not np.isfinite(signal).all():
        raise ValueError("missing samples would spread over the whole signal; cut or refuse them before resampling")
