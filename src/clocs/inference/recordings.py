"""Conversion of files and arrays to recordings."""

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
TO_MILLIVOLT: Final = {"mV": 1.0, "uV": 1e-3, "V": 1e3}
"""Factors to millivolt, by the unit of an array."""


def as_recording(
    source: RecordingLike,
    *,
    sampling_rate: float | None = None,
    leads: Sequence[str] | None = None,
    unit: str | None = None,
) -> Recording:
    """Return a file or an array as a recording.

    Args:
        source: A file, a recording, or an array (leads, samples).
        sampling_rate: Sampling rate of an array in Hz.
        leads: Lead names of an array, one for each row.
        unit: Unit of an array: mV, uV or V.

    Raises:
        ConfigError: A description of an array is missing or invalid, or is passed with a file or a recording.
        SignalError: The values of an array are out of range.
    """
    description = {"sampling_rate": sampling_rate, "leads": leads, "unit": unit}
    if not isinstance(source, Recording | str | os.PathLike):
        missing = [name for name, value in description.items() if value is None]
        if sampling_rate is None or leads is None or unit is None:
            raise ConfigError(
                f"An array needs a sampling rate, lead names and a unit. Pass {' and '.join(missing)}, for example "
                "embed(array, sampling_rate=500, leads=('I', 'II'), unit='mV')."
            )
        return _from_array(source, float(sampling_rate), leads, unit)
    needless = [name for name, value in description.items() if value is not None]
    if needless:
        raise ConfigError(
            f"{' and '.join(needless)}: only for arrays; a file or recording defines it itself. To correct a file, "
            "pass its array: embed(recording.signal, sampling_rate=..., leads=..., unit=...)."
        )
    return source if isinstance(source, Recording) else read(source)


def _from_array(array: npt.NDArray[Any], sampling_rate: float, leads: Sequence[str], unit: str) -> Recording:
    if unit not in TO_MILLIVOLT:
        raise ConfigError(f"Unknown unit '{unit}'. Units of an array: {', '.join(TO_MILLIVOLT)}.")
    if not 0 < sampling_rate < np.inf:
        raise ConfigError(f"Expected a sampling rate over 0 Hz, got {sampling_rate:g}.")
    names = (leads,) if isinstance(leads, str) else tuple(leads)
    values = _as_floats(array)
    if values.ndim != 2 or len(values) != len(names):
        raise ConfigError(
            f"Expected an array of shape (leads, samples) with {len(names)} leads ({', '.join(names)}), got "
            f"{values.shape}."
        )
    canonical = tuple(canonical_lead(name) for name in names)
    if len(set(canonical)) != len(canonical):
        raise ConfigError(f"Lead names must differ, got {', '.join(canonical)}.")
    try:
        digital = quantize(values * TO_MILLIVOLT[unit])
    except ValueError as error:
        raise SignalError(f"The array is not an ECG in {unit}: {error}. Check the unit.") from error
    return Recording(
        digital=digital,
        gain=np.full(len(canonical), MICROVOLT_GAIN),
        baseline=np.zeros(len(canonical), np.int32),
        sampling_rate=sampling_rate,
        leads=canonical,
        provenance=Provenance(format="array", notes=() if unit == "mV" else (f"unit converted from {unit} to mV",)),
    )


def _as_floats(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return an array as floats, with NaN where it is masked."""
    try:
        if np.asarray(array).dtype.kind in "cSU":
            raise TypeError("values must be real numbers")
        return np.ma.filled(np.ma.asanyarray(array).astype(np.float64), np.nan)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Expected a file, a recording or an array, got {type(array).__name__}: {error}.") from error
