"""An ECG recording: its samples as integers of the file, and its metadata."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import LeadError, UnitError
from clocs.core.stated_measurements import StatedMeasurements

Unit = Literal["mV", "adu"]
Digital = npt.NDArray[np.int16 | np.int32]

MICROVOLT_GAIN = 1000.0
"""Steps per millivolt for files with decimal values: one step is 1 uV."""


@functools.cache
def missing_value(dtype: npt.DTypeLike) -> int:
    """Return the digital value that marks a missing sample: the smallest of its type, as in WFDB."""
    return int(np.iinfo(np.dtype(dtype)).min)


@dataclass(frozen=True)
class Episode:
    """A labelled part of a recording.

    Example:
        >>> episode = clocs.Episode(start=500, end=1500, label="AFIB")
        >>> (episode.end - episode.start) / 500  # seconds at 500 Hz
        2.0
    """

    start: int
    """First sample, counted from 0."""
    end: int
    """Sample after the last one."""
    label: str
    """Label of these samples."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a recording, and notes on how it was read."""

    source: str = ""
    """File name within its folder or archive."""
    format: str = ""
    """Name of the file format."""
    sha256: str = ""
    """SHA-256 hash of the bytes of the file and its companion files, in the order in which they are read."""
    num_declared_samples: int | None = None
    """Number of samples stated in the file header; None if it states no number."""
    derived_leads: tuple[str, ...] = ()
    """Leads that were computed from I and II instead of read."""
    notes: tuple[str, ...] = ()
    """Notes of the reader, for example on repaired values."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Recording of simultaneous leads, as the integers of its file, with metadata.

    The physical value of a sample is ``(digital - baseline) / gain`` in ``unit``. Because the integers are kept, a
    store returns exactly the same recording.

    Example:
        >>> recording = clocs.Recording(
        ...     digital=np.array([[0, 500, 1000], [0, -250, 0]], np.int16),
        ...     gain=np.full(2, 1000.0),
        ...     baseline=np.zeros(2, np.int32),
        ...     sampling_rate=500,
        ...     leads=("I", "II"),
        ... )
        >>> recording.signal.tolist()
        [[0.0, 0.5, 1.0], [0.0, -0.25, 0.0]]
        >>> recording.select("II").num_samples
        3
    """

    digital: Digital
    """Samples of shape (leads, samples), int16 or int32. The smallest value of the type marks a missing sample."""
    gain: npt.NDArray[np.float64]
    """Integer steps per unit, of shape (leads,)."""
    baseline: npt.NDArray[np.int32]
    """Digital value of zero, of shape (leads,)."""
    sampling_rate: float
    """Samples per second."""
    leads: tuple[str, ...]
    """Names of the leads, in the order of the rows."""
    unit: Unit = "mV"
    """Physical unit: ``mV``, or ``adu`` (raw steps) if the file states no gain."""
    record_id: str = ""
    """Identifier of the recording, unique within its dataset."""
    patient_id: str = ""
    """Identifier of the patient; empty if unknown."""
    site: str = ""
    """Hospital or collection that recorded it."""
    age: float | None = None
    """Age of the patient in years; None if unknown."""
    sex: Literal["female", "male"] | None = None
    """Sex of the patient; None if unknown."""
    acquired: datetime | None = None
    """Date and time of the recording by the clock of its device, in whole seconds without a time zone; None if unknown.
    Readers of files never set it, see :func:`clocs.read_identity`."""
    labels: tuple[str, ...] = ()
    """Labels of the whole recording."""
    episodes: tuple[Episode, ...] = ()
    """Labels of parts of the recording."""
    stated_measurements: StatedMeasurements = field(default_factory=StatedMeasurements)
    """Measurements that the file states, see :func:`clocs.measure` for those of the package."""
    provenance: Provenance = field(default_factory=Provenance)
    """Origin of the recording."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Values of extra columns as text, such as the fold or the device."""

    def __post_init__(self) -> None:
        if self.digital.ndim != 2 or self.digital.dtype not in (np.int16, np.int32):
            form = f"{self.digital.shape} and {self.digital.dtype}"
            raise ValueError(f"Expected digital of shape (leads, samples) and type int16 or int32, got {form}.")
        if not len(self.leads) == len(self.gain) == len(self.baseline) == len(self.digital):
            raise ValueError("Expected one entry per lead in leads, gain, baseline and digital.")
        if len(set(self.leads)) != len(self.leads):
            raise ValueError(f"Expected different lead names, got {self.leads}.")

    @property
    def num_samples(self) -> int:
        """Return the number of samples per lead."""
        return int(self.digital.shape[1])

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.num_samples / self.sampling_rate

    def physical(self) -> npt.NDArray[np.float32]:
        """Return the samples in ``unit``.

        Returns:
            Values of shape (leads, samples), NaN for missing samples.
        """
        values = np.empty(self.digital.shape, np.float32)
        with np.errstate(over="ignore"):
            is_exact = self.digital.dtype == np.int16 and (self.gain == self.gain.astype(np.float32)).all()
        kind = np.float32 if is_exact and not self.baseline.any() else np.float64  # both round to the same float32
        for row, zero, gain, lead in zip(self.digital, self.baseline, self.gain.astype(kind), values, strict=True):
            np.divide(row - np.float64(zero) if zero else row, gain, out=lead, dtype=kind, casting="same_kind")
        missing = self.digital == missing_value(self.digital.dtype)
        if missing.any():
            values[missing] = np.nan
        return values

    @property
    def signal(self) -> npt.NDArray[np.float32]:
        """Return the samples in millivolt.

        Returns:
            Values of shape (leads, samples), NaN for missing samples.

        Raises:
            UnitError: The recording is in raw steps (adu), because its file states no gain.
        """
        if self.unit != "mV":
            raise UnitError(
                f"Recording '{self.record_id}' is in raw steps (adu), because its file states no gain. "
                "Use physical() if the scale does not matter, or set gain and unit."
            )
        return self.physical()

    def select(self, leads: str | Sequence[str]) -> Recording:
        """Return the recording with some of its leads.

        Args:
            leads: One name, or names in the order of the result.

        Returns:
            A recording with these leads in this order.

        Raises:
            LeadError: The recording does not have a lead, or a name is repeated.
        """
        leads = (leads,) if isinstance(leads, str) else tuple(leads)
        absent = [lead for lead in leads if lead not in self.leads]
        if absent:
            raise LeadError(
                f"Recording '{self.record_id}' has no lead {', '.join(absent)}. Choose from {', '.join(self.leads)}."
            )
        repeated = sorted({lead for lead in leads if leads.count(lead) > 1})
        if repeated:
            raise LeadError(f"Lead {', '.join(repeated)} is named more than once. Name each lead once.")
        rows = [self.leads.index(lead) for lead in leads]
        return replace(
            self, digital=self.digital[rows], gain=self.gain[rows], baseline=self.baseline[rows], leads=leads
        )


def quantize(values: npt.NDArray[np.floating], gain: float = MICROVOLT_GAIN, *, overwrite: bool = False) -> Digital:
    """Round physical values to integer steps.

    Args:
        values: Values of any shape, NaN for missing samples.
        gain: Steps per unit.
        overwrite: Compute in the memory of ``values``, if they are float64.

    Returns:
        int16 if all values fit, otherwise int32. Missing samples have :func:`missing_value`.

    Raises:
        ValueError: Values do not fit 32 bits.
    """
    steps = np.asarray(values, dtype=np.float64)
    steps = np.multiply(steps, gain, out=steps if overwrite else None)
    np.rint(steps, out=steps)
    absent, peak = None, max(steps.max(initial=0), -steps.min(initial=0))
    if not np.isfinite(peak):
        absent = ~np.isfinite(steps)
        steps[absent] = 0
        peak = np.abs(steps).max(initial=0)
    if peak > np.iinfo(np.int32).max:
        raise ValueError(
            f"Values up to {peak / gain:g} do not fit 32 bits at {gain:g} steps per unit. Use a smaller gain."
        )
    digital: Digital = steps.astype(np.int16) if peak <= np.iinfo(np.int16).max else steps.astype(np.int32)
    if absent is not None:
        digital[absent] = missing_value(digital.dtype)
    return digital


def to_int32(digital: Digital) -> Digital:
    """Return the same values as int32, with missing samples marked by the smallest int32."""
    if digital.dtype == np.int32:
        return digital
    wide = digital.astype(np.int32)
    wide[digital == missing_value(np.int16)] = missing_value(np.int32)
    return wide
