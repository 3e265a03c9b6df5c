"""Compute the layout of an EDF file: data records that the samples fill, and limits that represent the gain exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from clocs.core.errors import SignalError

TICKS_PER_SECOND: Final = 100_000
"""Resolution of the duration of a data record in ``pyedflib``."""
RECORD_SECONDS_RANGE: Final = (Fraction(1, 1000), Fraction(60))
"""Shortest and longest data record that ``pyedflib`` writes, in seconds."""
RECOMMENDED_RECORD_BYTES: Final = 61_440
"""Maximum size of a data record that EDF+ recommends."""
MAX_RECORD_BYTES: Final = 8 << 20
"""Maximum size of a data record."""
MIN_RECOMMENDED_SECONDS: Final = Fraction(1, 10)
"""Duration in seconds below which the time stamps of the data records take more space than the samples."""
SAMPLING_RATE_RANGE: Final = (1.0, 1e6)
"""Supported sampling rates in Hz."""
MAX_PADDING_SECONDS: Final = 2
"""Maximum padding in seconds to represent a sampling rate exactly."""
INEXACT_SECONDS: Final = 10
"""Duration of a data record with an inexact sampling rate. A longer one has a smaller error."""
FIELD_LENGTH: Final = 8
"""Number of characters of a number in the header."""
UNITS: Final = {"uV": Fraction(1), "mV": Fraction(1, 1000), "V": Fraction(1, 10**6), "nV": Fraction(1000)}
"""Size of a microvolt in each unit, in the order of trial."""
GAIN_TOLERANCE: Final = 1e-12
"""Relative difference below which gains are equal in floating point."""
MAX_SCALE_ERROR: Final = 1e-5
"""Maximum relative error of a gain."""


@dataclass(frozen=True)
class Records:
    """Layout of the data records."""

    num_samples: int
    """Number of samples of each lead in a data record."""
    ticks: int
    """Duration of a data record in units of 10 us."""
    count: int
    """Number of data records."""
    has_exact_rate: bool
    """True if the sampling rate is represented exactly."""

    @property
    def seconds(self) -> float:
        """Return the duration plus a quarter of a tick, because ``pyedflib`` rounds down to whole ticks."""
        return min((self.ticks + 0.25) / TICKS_PER_SECOND, float(RECORD_SECONDS_RANGE[1]))


def plan_records(num_samples: int, sampling_rate: float, frame_bytes: int) -> Records:
    """Choose data records with no padding if possible, else with the least padding.

    Args:
        num_samples: Number of samples of each lead.
        sampling_rate: Sampling rate in Hz.
        frame_bytes: Number of bytes of one sample of every lead.
    """
    low, high = SAMPLING_RATE_RANGE
    if not low <= sampling_rate <= high:
        raise SignalError(f"a sampling rate of {sampling_rate:g} Hz is out of range; EDF allows {low:g} to {high:g} Hz")
    fraction = Fraction(sampling_rate).limit_denominator(TICKS_PER_SECOND)
    # A data record takes a whole number of ticks if its number of samples is a multiple of this unit.
    unit = fraction.numerator // math.gcd(fraction.numerator, fraction.denominator * TICKS_PER_SECOND)
    exact = float(fraction) == sampling_rate and (unit <= MAX_PADDING_SECONDS * fraction or num_samples % unit == 0)
    longest = min(math.floor(RECORD_SECONDS_RANGE[1] * fraction), MAX_RECORD_BYTES // frame_bytes)
    shortest = math.ceil(RECORD_SECONDS_RANGE[0] * fraction)
    if not exact or unit > longest:
        exact, unit, shortest = False, 1, math.ceil(fraction)
    total = -(-num_samples // unit) * unit
    lengths = [length for length in _divisors(total) if length % unit == 0 and shortest <= length <= longest]
    chosen = _best_length(lengths, total, fraction, frame_bytes) if exact else max(lengths, default=None)
    if chosen is None:
        seconds = 1 if exact else INEXACT_SECONDS
        chosen = min(max(round(seconds * fraction / unit), 1), longest // unit) * unit
    return Records(chosen, round(chosen / fraction * TICKS_PER_SECOND), -(-num_samples // chosen), exact)


def _best_length(lengths: list[int], total: int, sampling_rate: Fraction, frame_bytes: int) -> int | None:
    """Return the longest data record of recommended size, else the shortest one above it.

    Data records of less than the recommended duration are only used if the file has a single one.
    """
    min_length = MIN_RECOMMENDED_SECONDS * sampling_rate
    long_enough = [length for length in lengths if length >= min_length or length == total]
    recommended = [length for length in long_enough if length * frame_bytes <= RECOMMENDED_RECORD_BYTES]
    return max(recommended) if recommended else min(long_enough, default=None)


def _divisors(number: int) -> Iterator[int]:
    for low in range(1, math.isqrt(number) + 1):
        if number % low == 0:
            yield low
            yield number // low


@dataclass(frozen=True)
class Limits:
    """Digital and physical limits of a signal in the header."""

    lowest: int
    """Digital minimum."""
    highest: int
    """Digital maximum."""
    low: str
    """Physical minimum, as written in the header."""
    high: str
    """Physical maximum, as written in the header."""
    unit: str
    """Physical unit."""
    is_exact: bool
    """True if the limits represent the gain exactly."""


def find_limits(gain: float, baseline: int, low: int, high: int, bits: int) -> Limits:
    """Find limits that represent the gain exactly, or else the nearest ones with eight characters.

    Args:
        gain: Digital units per millivolt.
        baseline: Digital value of 0 mV.
        low: Smallest digital value of the signal.
        high: Largest digital value of the signal.
        bits: Bits per sample.

    Raises:
        SignalError: If the relative error of the gain is larger than 1e-5.
    """
    resolution = Fraction(1000 / gain).limit_denominator(10**6)
    if resolution and abs(float(resolution) * gain / 1000 - 1) < GAIN_TOLERANCE:
        for unit, factor in UNITS.items():
            for lowest, highest in _pairs((resolution * factor).denominator, baseline, low, high, bits):
                found = [_exact_text(resolution * factor * (end - baseline)) for end in (lowest, highest)]
                if found[0] and found[1]:
                    return Limits(lowest, highest, found[0], found[1], unit, True)
    return _nearest_limits(Fraction(1000 / gain), baseline, low, high, bits)


def _pairs(grid: int, zero: int, low: int, high: int, bits: int) -> Iterator[tuple[int, int]]:
    """Iterate over digital limits at multiples of ``grid`` from zero: the widest first, then the roundest numbers."""
    bottom, top = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    widest = (zero - (zero - bottom) // grid * grid, zero + (top - zero) // grid * grid)
    rounder = [grid * 10**power for power in range(6, -1, -1)]
    outward = [(zero - -(-(zero - low) // wide) * wide, zero + -(-(high - zero) // wide) * wide) for wide in rounder]
    for lowest, highest in (widest, *outward):
        if bottom <= lowest <= low and high <= highest <= top and lowest < highest:
            yield lowest, highest


def _exact_text(value: Fraction) -> str:
    """Return a number in eight characters, or an empty text if it takes more."""
    for digits in range(FIELD_LENGTH - 1):
        if (value * 10**digits).denominator == 1:
            text = f"{int(value * 10**digits) / 10**digits:.{digits}f}"
            return text if len(text) <= FIELD_LENGTH else ""
    return ""


def _nearest_limits(resolution: Fraction, baseline: int, low: int, high: int, bits: int) -> Limits:
    """Return the limits with the smallest error. They use at most 16 bits if the values allow it.

    A wider range would be less precise in eight characters.
    """
    preferred, limit = 2 ** (min(bits, 16) - 1), 2 ** (bits - 1)
    ends = (max(-limit, min(-preferred, low)), min(limit - 1, max(preferred - 1, high)))
    found = []
    for unit, factor in UNITS.items():
        exact_values = [resolution * factor * (end - baseline) for end in ends]
        texts = [_rounded_text(value) for value in exact_values]
        if all(texts) and texts[0] != texts[1]:
            span = Fraction(texts[1]) - Fraction(texts[0])
            offset = max(abs(Fraction(text) - value) for text, value in zip(texts, exact_values, strict=True))
            error = max(
                abs(span / (exact_values[1] - exact_values[0]) - 1), abs(offset / (exact_values[1] - exact_values[0]))
            )
            found.append((error, Limits(*ends, texts[0], texts[1], unit, False)))
    error, limits = min(found, key=lambda pair: pair[0], default=(math.inf, None))
    if limits is None or error > MAX_SCALE_ERROR:
        raise SignalError(
            f"an EDF header cannot represent a resolution of {float(resolution):g} uV with a baseline of {baseline}"
        )
    return limits


def _rounded_text(value: Fraction) -> str:
    """Return the nearest number in eight characters, or an empty text if its integer part takes more."""
    for digits in range(FIELD_LENGTH - 2, -1, -1):
        text = f"{float(value):.{digits}f}"
        if len(text) <= FIELD_LENGTH:
            return text
    return ""
