"""Changing the number of samples: by physical rate, or by plain stretching as the paper does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def resample(signal: Floats, rate: float, to_rate: float) -> Floats:
    """Resample (..., samples) from one rate to another, by a polyphase filter against aliasing."""
    ratio = Fraction(to_rate / rate).limit_denominator(1000)
    if ratio == 1:
        return signal
    _refuse_missing(signal)
    from scipy.signal import resample_poly

    return np.asarray(
        resample_poly(signal, ratio.numerator, ratio.denominator, axis=-1, padtype="line"), dtype=np.float32
    )


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
