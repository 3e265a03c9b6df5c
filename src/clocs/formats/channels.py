"""Build a ``Recording`` from the channels of a file. Shared by the formats."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.recording import Digital, Provenance, Recording, missing_value
from clocs.core.sources.source_files import strip_extension
from clocs.core.stated_measurements import plausible_measurements
from clocs.formats.demographics import Demographics
from clocs.signals.leads import canonical_lead, computed_leads

DigitalValues = npt.NDArray[np.integer[Any]]

SAMPLING_RATE_RANGE: Final = (1.0, 1e6)
"""Valid sampling rates in Hz."""
GAIN_RANGE: Final = (1e-9, 1e12)
"""Valid gains in digital units per millivolt. A file with another gain is damaged."""
MAX_CHANNELS: Final = 256
MAX_LEAD_NAME: Final = 40
MAX_SAMPLES: Final = 1 << 62
"""Maximum declared length. A store cannot represent a larger number."""
SKEW_NOTE: Final = "its channels were not sampled at the same moments (channel skew); they are not shifted"
DERIVED_LEAD_TEXT: Final = "computed from leads I and II"
"""Description of a derived channel in files that clocs writes."""
NO_DEMOGRAPHICS: Final = Demographics()
_MILLIVOLT: Final = {"v": 1e3, "mv": 1.0, "uv": 1e-3, "µv": 1e-3, "μv": 1e-3, "nv": 1e-6}
_UNIT_NAMES: Final = {"volts": "v", "millivolts": "mv", "microvolts": "uv", "nanovolts": "nv"}


@dataclass(frozen=True)
class Channel:
    """One lead of a file. Its value in millivolt is ``(digital - baseline) / gain``."""

    lead: str
    """Name of the lead in the file."""
    digital: DigitalValues
    """Digital values, shape (samples,)."""
    gain: float
    """Digital units per millivolt."""
    baseline: int = 0
    """Digital value of 0 mV."""
    missing: npt.NDArray[np.bool_] | None = None
    """Mask of missing samples, shape (samples,). None if no sample is missing."""
    is_derived: bool = False
    """True if the file states that the lead was computed from I and II."""


def record_id_from_name(name: str) -> str:
    """Return the name of a file without its folders and extension."""
    return strip_extension(name).rsplit("/", 1)[-1]


def millivolts(unit: str) -> float | None:
    """Return the size of a unit in millivolt, or None if it is not a unit of voltage."""
    plain = unit.strip().lower()
    return _MILLIVOLT.get(_UNIT_NAMES.get(plain, plain))


def gain_from_resolution(resolution: float, unit: str, name: str) -> float:
    """Return the gain in digital units per millivolt, given the size of one digital unit."""
    size = resolution * (millivolts(unit) or 0.0)
    if not 1 / GAIN_RANGE[1] <= abs(size) <= 1 / GAIN_RANGE[0]:
        raise FormatError(f"{name}: a resolution of {resolution:g} is not a voltage in V, mV, uV or nV")
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
    stated: Mapping[str, float | None] | None = None,
    notes: Sequence[str] = (),
) -> Recording:
    """Build a recording from the channels of a file.

    Args:
        channels: Channels of equal length.
        sampling_rate: Sampling rate in Hz.
        raw: Content of the file, for its hash.
        name: Name of the file, which also gives the record id.
        format_name: Name of the format.
        demographics: Age and sex of the patient.
        num_declared_samples: Number of samples that the file declares.
        stated: Measurements that the file states, by name. Implausible values are dropped.
        notes: Notes on how the file was read.

    Raises:
        FormatError: If the channels do not form a valid recording.
    """
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
        stated_measurements=plausible_measurements(stated or {}),
        provenance=Provenance(
            name,
            format_name,
            hashlib.sha256(raw).hexdigest(),
            num_declared_samples=num_declared_samples
            if num_declared_samples and 0 < num_declared_samples <= MAX_SAMPLES
            else None,
            notes=tuple(notes),
            derived_leads=computed_leads((channel.lead for channel in channels if channel.is_derived), leads),
        ),
    )


def _check(channels: Sequence[Channel], sampling_rate: float, name: str) -> None:
    if not 1 <= len(channels) <= MAX_CHANNELS:
        raise FormatError(f"{name}: {len(channels)} leads; expected 1 to {MAX_CHANNELS}")
    if not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]:
        raise FormatError(f"{name}: sampling rate of {sampling_rate:g} Hz is out of range")
    lengths = sorted({len(channel.digital) for channel in channels})
    if len(lengths) > 1:
        raise FormatError(f"{name}: its leads differ in length, {lengths[0]} to {lengths[-1]} samples")
    if not lengths[0]:
        raise FormatError(f"{name}: holds no sample")
    for channel in channels:
        if not GAIN_RANGE[0] <= abs(channel.gain) <= GAIN_RANGE[1] or abs(channel.baseline) >= 2**31:
            raise FormatError(
                f"{name}: a gain of {channel.gain:g} per mV with baseline {channel.baseline:.3g} is out of range"
            )


def _stack(channels: Sequence[Channel], name: str) -> Digital:
    """Stack the channels to shape (leads, samples), in the smallest type with a spare value for missing samples."""
    peak = max(map(_peak, channels))
    if peak > np.iinfo(np.int32).max:
        raise FormatError(f"{name}: holds values that do not fit 32 bits; the file is damaged")
    dtype = np.int16 if peak <= np.iinfo(np.int16).max else np.int32
    digital: Digital = np.empty((len(channels), len(channels[0].digital)), dtype)
    for row, channel in zip(digital, channels, strict=True):
        row[:] = channel.digital
        if channel.missing is not None:
            row[channel.missing] = missing_value(dtype)
    return digital


def _peak(channel: Channel) -> int:
    """Return the largest absolute digital value that is not missing."""
    digital = channel.digital if channel.missing is None else channel.digital[~channel.missing]
    return max(-int(digital.min(initial=0)), int(digital.max(initial=0)))


def make_unique(names: list[str]) -> tuple[str, ...]:
    """Number repeated names: ``ECG``, ``ECG 2``."""
    seen: dict[str, int] = {}
    out: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return tuple(out) if len(set(out)) == len(out) else tuple(f"{name} #{row}" for row, name in enumerate(names))
