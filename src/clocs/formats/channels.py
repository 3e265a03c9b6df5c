"""From the leads of a file, each with its own steps and scale, to one ``Recording``; for formats to share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.recording import Digital, Provenance, Recording, missing_value
from clocs.core.sources import strip_extension
from clocs.formats.demographics import Demographics
from clocs.signals.leads import canonical_lead, computed_leads

DigitalValues = npt.NDArray[np.integer[Any]]

SAMPLING_RATE_RANGE: Final = (1.0, 1e6)
"""Hz."""
HEART_RATE_RANGE: Final = (10.0, 400.0)
"""Beats a minute; what a file states beyond these stands for none."""
GAIN_RANGE: Final = (1e-9, 1e12)
"""Steps per millivolt; beyond these a file is damaged, and its millivolts would not be numbers."""
MAX_CHANNELS: Final = 256
MAX_LEAD_NAME: Final = 40
MAX_SAMPLES: Final = 1 << 62
"""A longer claim is no number that a store can hold."""
SKEW_NOTE: Final = "its channels were not sampled at the same moments (channel skew); they are not shifted"
DERIVED_LEAD_TEXT: Final = "computed from leads I and II"
"""Of a channel, in files that clocs writes."""
NO_DEMOGRAPHICS: Final = Demographics()
_MILLIVOLT: Final = {"v": 1e3, "mv": 1.0, "uv": 1e-3, "µv": 1e-3, "μv": 1e-3, "nv": 1e-6}
_WORDS: Final = {"volts": "v", "millivolts": "mv", "microvolts": "uv", "nanovolts": "nv"}


@dataclass(frozen=True)
class Channel:
    """One lead as a file holds it: millivolts are ``(steps - baseline) / gain``."""

    lead: str
    digital: DigitalValues
    """(samples,)"""
    gain: float
    """Steps per millivolt."""
    baseline: int = 0
    missing: npt.NDArray[np.bool_] | None = None
    """(samples,), True where the file marks a sample as missing; None: nowhere."""
    is_derived: bool = False
    """Whether the file says that it follows from leads I and II."""


def record_id_from_name(name: str) -> str:
    """A file's name without folders and ending."""
    return strip_extension(name).rsplit("/", 1)[-1]


def millivolts(unit: str) -> float | None:
    """How many millivolts one of a unit is; None where it is no voltage."""
    plain = unit.strip().lower()
    return _MILLIVOLT.get(_WORDS.get(plain, plain))


def gain_from_resolution(step: float, unit: str, name: str) -> float:
    """Steps per millivolt, where a step is so much of a unit."""
    size = step * (millivolts(unit) or 0.0)
    if not 1 / GAIN_RANGE[1] <= abs(size) <= 1 / GAIN_RANGE[0]:
        raise FormatError(f"{name}: a step of {step:g} is no voltage in V, mV, uV or nV")
    return 1 / size


def recording_from_channels(
    channels: Sequence[Channel],
    sampling_rate: float,
    raw: bytes,
    name: str,
    format_name: str,
    *,
    demographics: Demographics = NO_DEMOGRAPHICS,
    num_declared_samples: int | None = None,
    heart_rate: float | None = None,
    notes: Sequence[str] = (),
) -> Recording:
    """A recording of a file's leads, named after the file; whatever cannot be one is a ``FormatError``."""
    _check(channels, sampling_rate, name)
    leads = make_unique([canonical_lead(channel.lead[:MAX_LEAD_NAME]) or "ECG" for channel in channels])
    return Recording(
        digital=_stack(channels, name),
        gain=np.array([channel.gain for channel in channels], np.float64),
        baseline=np.array([channel.baseline for channel in channels], np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        record_id=record_id_from_name(name),
        age=demographics.age,
        sex=demographics.sex,
        provenance=Provenance(
            name,
            format_name,
            hashlib.sha256(raw).hexdigest(),
            num_declared_samples=num_declared_samples
            if num_declared_samples and 0 < num_declared_samples <= MAX_SAMPLES
            else None,
            notes=tuple(notes),
            derived_leads=computed_leads((channel.lead for channel in channels if channel.is_derived), leads),
            heart_rate=heart_rate if heart_rate and HEART_RATE_RANGE[0] <= heart_rate <= HEART_RATE_RANGE[1] else None,
        ),
    )


def _check(channels: Sequence[Channel], sampling_rate: float, name: str) -> None:
    if not 1 <= len(channels) <= MAX_CHANNELS:
        raise FormatError(f"{name}: {len(channels)} leads; 1 to {MAX_CHANNELS} are read")
    if not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]:
        raise FormatError(f"{name}: sampling rate of {sampling_rate:g} Hz is out of range")
    lengths = sorted({len(channel.digital) for channel in channels})
    if len(lengths) > 1:
        raise FormatError(f"{name}: its leads differ in length, {lengths[0]} to {lengths[-1]} samples")
    if not lengths[0]:
        raise FormatError(f"{name}: holds no sample")
    for channel in channels:
        if not GAIN_RANGE[0] <= abs(channel.gain) <= GAIN_RANGE[1] or abs(channel.baseline) >= 2**31:
            raise FormatError(f"{name}: {channel.gain:g} steps per mV from {channel.baseline:.3g} is out of range")


def _stack(channels: Sequence[Channel], name: str) -> Digital:
    """(leads, samples) of the narrowest type that holds every step and is left a value for missing ones."""
    peak = max(map(_peak, channels))
    if peak > np.iinfo(np.int32).max:
        raise FormatError(f"{name}: holds steps that do not fit 32 bits; the file is damaged")
    dtype = np.int16 if peak <= np.iinfo(np.int16).max else np.int32
    digital: Digital = np.empty((len(channels), len(channels[0].digital)), dtype)
    for row, channel in zip(digital, channels, strict=True):
        row[:] = channel.digital
        if channel.missing is not None:
            row[channel.missing] = missing_value(dtype)
    return digital


def _peak(channel: Channel) -> int:
    """The largest step in size that is not missing."""
    there = True if channel.missing is None else ~channel.missing
    return max(-int(channel.digital.min(initial=0, where=there)), int(channel.digital.max(initial=0, where=there)))


def make_unique(names: list[str]) -> tuple[str, ...]:
    """Tell repeated names apart: ``ECG``, ``ECG 2``."""
    seen: dict[str, int] = {}
    out: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return tuple(out) if len(set(out)) == len(out) else tuple(f"{name} #{row}" for row, name in enumerate(names))
