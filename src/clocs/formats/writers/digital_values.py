"""The integer steps of a lead, made to fit the bits that a format has; and texts made to fit its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import SignalError
from clocs.core.recording import Recording, missing_value

ROUNDED = "values are rounded, for they need more bits than the format has"


@dataclass(frozen=True)
class FittedLead:
    """One lead: its value is ``(values - baseline) / gain``."""

    values: npt.NDArray[np.int64]
    """(samples,); ``missing`` ones hold the baseline."""
    missing: npt.NDArray[np.bool_]
    gain: float
    baseline: int
    is_rounded: bool
    """Whether steps had to be made coarser."""


def fit_to_bits(recording: Recording, bits: int, *, prefer_zero_baseline: bool) -> list[FittedLead]:
    """Each lead in signed integers of so many bits, the lowest value left free.

    Values that fit stay; ``prefer_zero_baseline`` prefers a baseline of 0 where that is exact too. Others are counted
    from the baseline, and where even that does not fit, in steps that are a whole number of times larger.
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


def check_patient_id(recording: Recording, longest: int) -> None:
    """Refuse an id that would be cut: two patients could become one."""
    if len(recording.patient_id) > longest:
        raise SignalError(
            f"recording '{recording.record_id}': its patient's id has over {longest} characters, which is the most "
            "that the format holds"
        )


def to_ascii(text: str, longest: int) -> str:
    """A text in printable ASCII, without spaces at its ends, of at most so many characters."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else " " for character in ascii_only).strip()[:longest].strip()
