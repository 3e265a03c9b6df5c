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
class Steps:
    """One lead: its value is ``(values - baseline) / gain``."""

    values: npt.NDArray[np.int64]
    """(samples,); ``missing`` ones hold the baseline."""
    missing: npt.NDArray[np.bool_]
    gain: float
    baseline: int
    rounded: bool
    """Whether steps had to be made coarser."""


def fitted(recording: Recording, bits: int, *, from_zero: bool) -> list[Steps]:
    """Each lead in signed integers of so many bits, the lowest value left free.

    Values that fit stay; ``from_zero`` prefers a baseline of 0 where that is exact too. Others are counted
    from the baseline, and where even that does not fit, in steps that are a whole number of times larger.
    """
    limit = 2 ** (bits - 1) - 1
    return [_fitted(recording, row, limit, from_zero) for row in range(len(recording.leads))]


def _fitted(recording: Recording, row: int, limit: int, from_zero: bool) -> Steps:
    gain, baseline = float(recording.gain[row]), int(recording.baseline[row])
    missing = recording.digital[row] == missing_value(recording.digital.dtype)
    values = recording.digital[row].astype(np.int64)
    as_it_is = _peak(values, missing) <= limit
    moved = values - baseline
    peak = _peak(moved, missing)
    if peak <= limit and (from_zero or not as_it_is):
        values, baseline, factor = moved, 0, 1
    elif as_it_is:
        factor = 1
    else:
        factor = -(-peak // limit)
        values, baseline = np.rint(moved / factor).astype(np.int64), 0
    values[missing] = np.clip(baseline, -limit, limit)
    return Steps(values, missing, gain / factor, baseline, factor > 1)


def _peak(values: npt.NDArray[np.int64], missing: npt.NDArray[Any]) -> int:
    return int(np.abs(values).max(initial=0, where=~missing))


def check_patient_id(recording: Recording, longest: int) -> None:
    """Refuse an id that would be cut: two patients could become one."""
    if len(recording.patient_id) > longest:
        raise SignalError(
            f"recording '{recording.record_id}': its patient's id has over {longest} characters, which is the most "
            "that the format holds"
        )


def plain(text: str, longest: int) -> str:
    """A text in printable ASCII, without spaces at its ends, of at most so many characters."""
    ascii_only = text.encode("ascii", "replace").decode()
    return "".join(sign if sign.isprintable() else " " for sign in ascii_only).strip()[:longest].strip()
