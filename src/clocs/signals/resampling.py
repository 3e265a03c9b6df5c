"""Resample signals to another sampling rate, or to a fixed number of samples as in the paper."""

from __future__ import annotations

import functools
from fractions import Fraction
from math import ceil

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

PRECISION = Fraction(1, 10**6)
"""Relative precision of the ratio of two sampling rates. Over a day, the error is below a tenth of a second."""
TAPS = 10
"""Half of the length of SciPy's polyphase filter, in samples of the lower rate."""
KAISER_BETA = 5.0
"""Shape of the window of this filter."""
MAX_FACTOR = 5
"""Largest factor of a ratio, such as 2 of 500 to 250 Hz or 5 of 300 to 500 Hz, for which NumPy is as fast as SciPy.

SciPy is not imported for these, which saves a second at the start of a command.
"""


def resample(signal: Floats, sampling_rate: float, target_rate: float) -> Floats:
    """Resample a signal to another sampling rate with a polyphase anti-aliasing filter.

    The signal is extended by its first and last value, so that resampling a part gives a part of the resampled signal.

    Args:
        signal: Signal of shape (..., samples), without missing samples.
        sampling_rate: Sampling rate of the signal in Hz.
        target_rate: Sampling rate of the result in Hz.

    Returns:
        Signal of shape (..., target samples).

    Raises:
        ValueError: Samples are missing (NaN or infinite).
    """
    ratio = _ratio(sampling_rate, target_rate)
    if ratio == 1:
        return signal
    _check_finite(signal)
    up, down = ratio.numerator, ratio.denominator
    taps = _low_pass_filter(max(up, down)).astype(signal.dtype)
    if max(up, down) <= MAX_FACTOR:
        return np.asarray(_filter_phases(signal, up, down, taps), dtype=np.float32)
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(signal, up, down, axis=-1, window=taps, padtype="edge"), dtype=np.float32)


def _filter_phases(
    signal: npt.NDArray[np.floating], up: int, down: int, taps: npt.NDArray[np.floating]
) -> npt.NDArray[np.floating]:
    """Return what SciPy's ``resample_poly`` returns for these taps, to the last bit.

    Every ``up``-th sample of the result has the same phase: the same taps at positions ``down`` apart.
    """
    half, reach = len(taps) // 2, -(-len(taps) // up)
    by_phase = np.zeros(reach * up, signal.dtype)
    by_phase[: len(taps)] = taps * signal.dtype.type(up)
    before, num_samples = reach - 1 - half // up, -(-signal.shape[-1] * up // down)
    after = max(0, ((num_samples - 1) * down + half) // up + 1 - signal.shape[-1])
    padded = np.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(before, after)], "edge")
    result = np.empty((*signal.shape[:-1], num_samples), signal.dtype)
    for offset in range(min(up, num_samples)):
        part = result[..., offset::up]
        last, phase = divmod(offset * down + half, up)
        total, product = np.zeros(part.shape, signal.dtype), np.empty(part.shape, signal.dtype)
        for tap in range(reach - 1, -1, -1):  # from the earliest sample on, as SciPy adds
            begin = before + last - tap
            source = padded[..., begin : begin + (part.shape[-1] - 1) * down + 1 : down]
            total += np.multiply(source, by_phase[phase + tap * up], out=product)
        part[...] = total
    return result


@functools.lru_cache(maxsize=64)
def _low_pass_filter(factor: int) -> npt.NDArray[np.float64]:
    """Return SciPy's low-pass filter for the larger factor of a ratio. It is cached, because its design is slow.

    In single precision, it is ``firwin(2 * TAPS * factor + 1, 1 / factor, window=("kaiser", 5.0))`` to the last bit.
    """
    half, cutoff = TAPS * factor, 1 / factor
    position = np.arange(-half, half + 1, dtype=np.float64)
    window = np.i0(KAISER_BETA * np.sqrt(1 - (position / half) ** 2)) / np.i0(KAISER_BETA)
    taps = cutoff * np.sinc(cutoff * position) * window
    return np.asarray(taps / taps.sum())


def source_window(
    start: npt.NDArray[np.int64],
    length: int,
    num_samples: npt.NDArray[np.int64],
    sampling_rate: float,
    target_rate: float,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the parts of recordings that are needed to compute windows at another sampling rate.

    Args:
        start: First sample of each window at the target rate, of shape (N,).
        length: Number of samples of a window at the target rate.
        num_samples: Number of samples of the recording of each window, of shape (N,).
        sampling_rate: Sampling rate of the recordings in Hz.
        target_rate: Sampling rate of the windows in Hz.

    Returns:
        First sample of each part, sample after its last one, and number of resampled samples before ``start``; each of
        shape (N,).
    """
    ratio = _ratio(sampling_rate, target_rate)
    up, down = ratio.numerator, ratio.denominator
    reach = TAPS * max(1, ceil(1 / ratio)) + 1
    first = np.maximum(0, start * down // up - reach)
    first -= first % down  # positions at which source and target samples coincide
    end = np.minimum(num_samples, -(-(start + length) * down // up) + reach)
    return first, end, start - first // down * up


def resampled_length(
    num_samples: npt.NDArray[np.int64], sampling_rate: float, target_rate: float
) -> npt.NDArray[np.int64]:
    """Return the number of samples that recordings of shape (N,) have at another sampling rate."""
    ratio = _ratio(sampling_rate, target_rate)
    return num_samples * ratio.numerator // ratio.denominator


@functools.lru_cache(maxsize=1024)
def _ratio(sampling_rate: float, target_rate: float) -> Fraction:
    """Return target rate over sampling rate as a fraction of small numbers, because the filter grows with them.

    The fraction of the higher over the lower rate is approximated, because the inverse is less precise.
    """
    exact, max_denominator = Fraction(max(sampling_rate, target_rate) / min(sampling_rate, target_rate)), 1000
    ratio = exact.limit_denominator(max_denominator)
    while abs(ratio / exact - 1) > PRECISION:
        max_denominator *= 2
        ratio = exact.limit_denominator(max_denominator)
    return ratio if target_rate > sampling_rate else 1 / ratio


def resample_to_length(signal: Floats, num_samples: int) -> Floats:
    """Resample a signal to a number of samples with the Fourier method, as in the paper.

    Args:
        signal: Signal of shape (..., any length), without missing samples.
        num_samples: Number of samples of the result.

    Returns:
        Signal of shape (..., num_samples). Its sampling rate changes accordingly.

    Raises:
        ValueError: Samples are missing (NaN or infinite).
    """
    if signal.shape[-1] == num_samples:
        return signal
    _check_finite(signal)
    from scipy.signal import resample as fourier

    return np.asarray(fourier(signal, num_samples, axis=-1), dtype=np.float32)


def _check_finite(signal: Floats) -> None:
    if not np.isfinite(signal).all():
        raise ValueError(
            "Missing samples would spread over the signal. Remove or replace NaN and infinite values before resampling."
        )
