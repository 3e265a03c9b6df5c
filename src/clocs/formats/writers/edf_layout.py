"""How a recording is laid out in EDF: data records that its samples fill, and limits that say its scale exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from clocs.core.errors import SignalError

TICKS_PER_SECOND: Final = 100_000
"""A second, in the unit in which ``pyedflib`` keeps the duration of a data record."""
RECORD_SECONDS_RANGE: Final = (Fraction(1, 1000), Fraction(60))
"""Shortest and longest data record that it writes."""
RECOMMENDED_RECORD_BYTES: Final = 61_440
"""What EDF+ wants of a data record at most."""
MAX_RECORD_BYTES: Final = 8 << 20
MIN_RECOMMENDED_SECONDS: Final = Fraction(1, 10)
"""Seconds: below, the time that EDF+ puts into each data record takes more room than the samples."""
SAMPLING_RATE_RANGE: Final = (1.0, 1e6)
MAX_PADDING_SECONDS: Final = 2
"""Seconds that may be filled up for the sake of an exact rate."""
INEXACT_SECONDS: Final = 10
"""Of a data record whose rate is not exact: the longer, the less it is off."""
FIELD_LENGTH: Final = 8
"""Characters of a number in the header."""
UNITS: Final = {"uV": Fraction(1), "mV": Fraction(1, 1000), "V": Fraction(1, 10**6), "nV": Fraction(1000)}
"""How many of a unit a microvolt is, in the order in which they are tried."""
GAIN_TOLERANCE: Final = 1e-12
"""Gains that differ by less are the same: floating point knows no better."""
MAX_SCALE_ERROR: Final = 1e-5


@dataclass(frozen=True)
class Records:
    """Data records: ``count`` of them, each with ``num_samples`` samples of each lead in ``ticks`` of 10 us."""

    num_samples: int
    ticks: int
    count: int
    has_exact_rate: bool

    @property
    def seconds(self) -> float:
        """A little more than it is, since ``pyedflib`` cuts off what is less than a tick."""
        return min((self.ticks + 0.25) / TICKS_PER_SECOND, float(RECORD_SECONDS_RANGE[1]))


def plan_records(num_samples: int, sampling_rate: float, frame_bytes: int) -> Records:
    """Data records that hold the samples without a rest where that can be, else with the fewest too many.

    ``frame_bytes``: bytes of one sample of every lead.
    """
    if not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]:
        low, high = SAMPLING_RATE_RANGE
        raise SignalError(f"a rate of {sampling_rate:g} Hz is not written; EDF takes {low:g} to {high:g} Hz")
    fraction = Fraction(sampling_rate).limit_denominator(TICKS_PER_SECOND)
    # So many samples, or a multiple, take a whole number of ticks.
    unit = fraction.numerator // math.gcd(fraction.numerator, fraction.denominator * TICKS_PER_SECOND)
    exact = float(fraction) == sampling_rate and (unit <= MAX_PADDING_SECONDS * fraction or num_samples % unit == 0)
    longest = min(math.floor(RECORD_SECONDS_RANGE[1] * fraction), MAX_RECORD_BYTES // frame_bytes)
    shortest = math.ceil(RECORD_SECONDS_RANGE[0] * fraction)
    if not exact or unit > longest:
        exact, unit, shortest = False, 1, math.ceil(fraction)
    whole = -(-num_samples // unit) * unit
    fitting = [each for each in _divisors(whole) if each % unit == 0 and shortest <= each <= longest]
    chosen = _best(fitting, whole, fraction, frame_bytes) if exact else max(fitting, default=None)
    if chosen is None:
        seconds = 1 if exact else INEXACT_SECONDS
        chosen = min(max(round(seconds * fraction / unit), 1), longest // unit) * unit
    return Records(chosen, round(chosen / fraction * TICKS_PER_SECOND), -(-num_samples // chosen), exact)


def _best(fitting: list[int], whole: int, sampling_rate: Fraction, frame_bytes: int) -> int | None:
    """The longest data record of usual size, else the shortest above it; a single one may be as short as it is."""
    long_enough = [each for each in fitting if each >= MIN_RECOMMENDED_SECONDS * sampling_rate or each == whole]
    usual = [each for each in long_enough if each * frame_bytes <= RECOMMENDED_RECORD_BYTES]
    return max(usual) if usual else min(long_enough, default=None)


def _divisors(number: int) -> Iterator[int]:
    for low in range(1, math.isqrt(number) + 1):
        if number % low == 0:
            yield low
            yield number // low


@dataclass(frozen=True)
class Limits:
    """The digital values at the ends of a signal's range, and what they mean, as the header writes it."""

    lowest: int
    highest: int
    low: str
    high: str
    unit: str
    is_exact: bool


def find_limits(gain: float, baseline: int, low: int, high: int, bits: int) -> Limits:
    """Limits within so many bits, around the steps ``low`` to ``high``, whose two numbers say the scale exactly.

    Where no pair of numbers of eight characters does, the nearest is taken; a scale that is off by more than a
    hundred-thousandth is a ``SignalError``. ``gain``: steps per millivolt.
    """
    step = Fraction(1000 / gain).limit_denominator(10**6)
    if step and abs(float(step) * gain / 1000 - 1) < GAIN_TOLERANCE:
        for unit, factor in UNITS.items():
            for lowest, highest in _pairs((step * factor).denominator, baseline, low, high, bits):
                found = [_exact_text(step * factor * (end - baseline)) for end in (lowest, highest)]
                if found[0] and found[1]:
                    return Limits(lowest, highest, found[0], found[1], unit, True)
    return _nearest_limits(Fraction(1000 / gain), baseline, low, high, bits)


def _pairs(grid: int, zero: int, low: int, high: int, bits: int) -> Iterator[tuple[int, int]]:
    """Ranges whose ends are multiples of ``grid`` away from zero: the widest, then rounder numbers before finer."""
    bottom, top = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    widest = (zero - (zero - bottom) // grid * grid, zero + (top - zero) // grid * grid)
    rounder = [grid * 10**power for power in range(6, -1, -1)]
    outward = [(zero - -(-(zero - low) // wide) * wide, zero + -(-(high - zero) // wide) * wide) for wide in rounder]
    for lowest, highest in (widest, *outward):
        if bottom <= lowest <= low and high <= highest <= top and lowest < highest:
            yield lowest, highest


def _exact_text(value: Fraction) -> str:
    """A number in eight characters, or nothing where it takes more."""
    for digits in range(FIELD_LENGTH - 1):
        if (value * 10**digits).denominator == 1:
            text = f"{int(value * 10**digits) / 10**digits:.{digits}f}"
            return text if len(text) <= FIELD_LENGTH else ""
    return ""


def _nearest_limits(step: Fraction, baseline: int, low: int, high: int, bits: int) -> Limits:
    """Of no more than 16 bits where the steps allow: the wider the range, the coarser what eight characters say."""
    narrow, most = 2 ** (min(bits, 16) - 1), 2 ** (bits - 1)
    ends = (max(-most, min(-narrow, low)), min(most - 1, max(narrow - 1, high)))
    found = []
    for unit, factor in UNITS.items():
        exact_values = [step * factor * (end - baseline) for end in ends]
        texts = [_rounded_text(value) for value in exact_values]
        if all(texts) and texts[0] != texts[1]:
            span = Fraction(texts[1]) - Fraction(texts[0])
            offset = max(abs(Fraction(text) - value) for text, value in zip(texts, exact_values, strict=True))
            error = max(
                abs(span / (exact_values[1] - exact_values[0]) - 1), abs(offset / (exact_values[1] - exact_values[0]))
            )
            found.append((error, Limits(*ends, texts[0], texts[1], unit, False)))
    error, limits = min(found, key=lambda each: each[0], default=(math.inf, None))
    if limits is None or error > MAX_SCALE_ERROR:
        raise SignalError(f"a step of {float(step):g} uV with zero at {baseline} is out of what an EDF header can say")
    return limits


def _rounded_text(value: Fraction) -> str:
    """The nearest number in eight characters; nothing where even its whole part takes more."""
    for digits in range(FIELD_LENGTH - 2, -1, -1):
        text = f"{float(value):.{digits}f}"
        if len(text) <= FIELD_LENGTH:
            return text
    return ""
