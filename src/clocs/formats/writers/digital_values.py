"""Fit digital values into the bits of a format, and texts into its fields. Shared by the writers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import SignalError
from clocs.core.recording import Recording, missing_value

ROUNDED = "values are rounded, because they need more bits than the format has"


@dataclass(frozen=True)
class FittedLead:
    """Digital values of one lead. The physical value is ``(values - baseline) / gain``."""

    values: npt.NDArray[np.int64]
    """Digital values, shape (samples,). Missing samples have the value of the baseline."""
    missing: npt.NDArray[np.bool_]
    """Mask of missing samples, shape (samples,)."""
    gain: float
    """Digital units per millivolt or adu."""
    baseline: int
    """Digital value of 0."""
    is_rounded: bool
    """True if the resolution was reduced."""


def fit_to_bits(recording: Recording, bits: int, *, prefer_zero_baseline: bool) -> list[FittedLead]:
    """Fit each lead into signed integers, without using the lowest value.

    Values that fit are kept. Otherwise the baseline is subtracted, and if that does not suffice, the values are divided
    by an integer and rounded.

    Args:
        recording: Recording to fit.
        bits: Number of bits of an integer.
        prefer_zero_baseline: Also subtract the baseline from values that fit, if the result is exact.
    """
    limit = 2 ** (bits - 1) - 1
    return [_fit_lead(recording, row, limit, prefer_zero_baseline) for row in range(len(recording.leads))]


def _fit_lead(recording: Recording, row: int, limit: int, prefer_zero_baseline: bool) -> FittedLead:
    gain, baseline = float(recording.gain[row]), int(recording.baseline[row])
    missing = recording.digital[row] == missing_value(recording.digital.dtype)
    values = recording.digital[row].astype(np.int64)
    fits_unchanged = _peak(values, missing) <= limit
    centered = values - baseline
    peak = _peak(centered, missing)
    if peak <= limit and (prefer_zero_baseline or not fits_unchanged):
        values, baseline, factor = centered, 0, 1
    elif fits_unchanged:
        factor = 1
    else:
        factor = -(-peak // limit)
        values, baseline = np.rint(centered / factor).astype(np.int64), 0
    values[missing] = np.clip(baseline, -limit, limit)
    return FittedLead(values, missing, gain / factor, baseline, factor > 1)


def _peak(values: npt.NDArray[np.int64], missing: npt.NDArray[Any]) -> int:
    return int(np.abs(values).max(initial=0, where=~missing))


def check_patient_id(recording: Recording, max_length: int) -> None:
    """Raise an error if the patient id is too long. Truncation could give two patients the same id."""
    if len(recording.patient_id) > max_length:
        raise SignalError(
            f"recording '{recording.record_id}': its patient id has over {max_length} characters, which the format "
            "cannot represent"
        )


def to_ascii(text: str, max_length: int) -> str:
    """Return a text in printable ASCII, stripped, and truncated to a maximum length."""
    ascii_only = text.encode("ascii", "replace").decode()
    return (
        "".join(character if character.isprintable() else " " for character in ascii_only).strip()[:max_length].strip()
    )
