"""A recording from whatever a user has: a file, a recording, an array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, SignalError
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording, quantize
from clocs.formats import read
from clocs.signals.leads import canonical_lead

RecordingLike = str | os.PathLike[str] | Recording | npt.NDArray[Any]
"""A file, a recording, or an array (leads, samples)."""
MILLIVOLT: Final = {"mV": 1.0, "uV": 1e-3, "V": 1e3}
"""Units that an array may have."""


def as_recording(
    source: RecordingLike,
    *,
    sampling_rate: float | None = None,
    leads: Sequence[str] | None = None,
    unit: str | None = None,
) -> Recording:
    """The recording; of an array (leads, samples) only with its rate in Hz, its lead names and its unit."""
    given = {"sampling_rate": sampling_rate, "leads": leads, "unit": unit}
    if not isinstance(source, Recording | str | os.PathLike):
        lacking = [name for name, value in given.items() if value is None]
        if sampling_rate is None or leads is None or unit is None:
            raise ConfigError(
                f"an array says nothing about itself: give {' and '.join(lacking)}, as in "
                "embed(array, sampling_rate=500, leads=('I', 'II'), unit='mV')"
            )
        return _from_array(source, float(sampling_rate), leads, unit)
    needless = [name for name, value in given.items() if value is not None]
    if needless:
        raise ConfigError(
            f"{' and '.join(needless)} given, but a file or recording says that itself. If it says it wrongly, pass "
            "an array: embed(recording.signal, sampling_rate=..., leads=..., unit=...)"
        )
    return source if isinstance(source, Recording) else read(source)


def _from_array(array: npt.NDArray[Any], sampling_rate: float, leads: Sequence[str], unit: str) -> Recording:
    if unit not in MILLIVOLT:
        raise ConfigError(f"unknown unit '{unit}'; an array is in {', '.join(MILLIVOLT)}")
    if not 0 < sampling_rate < np.inf:
        raise ConfigError(f"a rate is a number of Hz over 0, not {sampling_rate:g}")
    names = (leads,) if isinstance(leads, str) else tuple(leads)
    values = _floats(array)
    if values.ndim != 2 or len(values) != len(names):
        raise ConfigError(
            f"the array is {values.shape}, but it must be (leads, samples) with a row for each of the "
            f"{len(names)} leads named: {', '.join(names)}"
        )
    known = tuple(canonical_lead(name) for name in names)
    if len(set(known)) != len(known):
        raise ConfigError(f"a lead is named twice: {', '.join(known)}")
    try:
        digital = quantize(values * MILLIVOLT[unit])
    except ValueError as error:
        raise SignalError(f"the array holds no ECG in {unit}: {error}. Check the unit.") from error
    return Recording(
        digital=digital,
        gain=np.full(len(known), MICROVOLT_GAIN),
        baseline=np.zeros(len(known), np.int32),
        sampling_rate=sampling_rate,
        leads=known,
        provenance=Provenance(format="array", notes=() if unit == "mV" else (f"unit converted from {unit} to mV",)),
    )


def _floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    try:
        if np.asarray(array).dtype.kind in "cSU":
            raise TypeError("real numbers are wanted")
        return np.ma.filled(np.ma.asanyarray(array).astype(np.float64), np.nan)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"a {type(array).__name__} is neither a file, nor a recording, nor an array of numbers: {error}"
        ) from error
