"""One ECG recording: its samples as the file holds them, and what is known about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import LeadError, UnitError

Unit = Literal["mV", "adu"]
Digital = npt.NDArray[np.int16 | np.int32]

MICROVOLT_GAIN = 1000.0
"""Steps per millivolt used where a file holds decimals: one step is 1 uV."""


def missing_value(dtype: npt.DTypeLike) -> int:
    """The digital value that marks a missing sample: the smallest of its type, as WFDB has it."""
    return int(np.iinfo(np.dtype(dtype)).min)


@dataclass(frozen=True)
class Episode:
    """A labelled stretch: samples [start, end), counted from 0."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Provenance:
    """Where a recording came from, and what was done to it on the way."""

    source: str = ""
    """File name within its folder or archive."""
    format: str = ""
    sha256: str = ""
    """Hash of the bytes of the file and its companions, in the order read."""
    num_declared_samples: int | None = None
    """Length the file's header promises; None where it promises none."""
    derived_leads: tuple[str, ...] = ()
    """Leads computed from others, not read."""
    notes: tuple[str, ...] = ()
    heart_rate: float | None = None
    """Beats a minute as the device counted them, for the gate to compare; no store keeps it."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Samples of simultaneously recorded leads, in the file's own integer steps.

    The physical value of a sample is ``(digital - baseline) / gain`` in ``unit``. Keeping the
    integers makes a round trip through a store exact.
    """

    digital: Digital
    """(leads, samples), int16 or int32; ``missing_value(dtype)`` marks a missing sample."""
    gain: npt.NDArray[np.float64]
    """(leads,), steps per unit."""
    baseline: npt.NDArray[np.int32]
    """(leads,), the step that means zero."""
    sampling_rate: float
    """Samples per second."""
    leads: tuple[str, ...]
    unit: Unit = "mV"
    record_id: str = ""
    patient_id: str = ""
    site: str = ""
    age: float | None = None
    """Years."""
    sex: Literal["female", "male"] | None = None
    labels: tuple[str, ...] = ()
    episodes: tuple[Episode, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if self.digital.ndim != 2 or self.digital.dtype not in (np.int16, np.int32):
            raise ValueError(f"digital must be (leads, samples) of int16 or int32, not {self.digital.dtype}")
        if not len(self.leads) == len(self.gain) == len(self.baseline) == len(self.digital):
            raise ValueError("leads, gain, baseline and digital must have one entry per lead")
        if len(set(self.leads)) != len(self.leads):
            raise ValueError(f"a lead is named twice: {self.leads}")

    @property
    def num_samples(self) -> int:
        return int(self.digital.shape[1])

    @property
    def seconds(self) -> float:
        return self.num_samples / self.sampling_rate

    def physical(self) -> npt.NDArray[np.float32]:
        """(leads, samples) in ``unit``, NaN where a sample is missing."""
        values = (self.digital - self.baseline[:, None].astype(np.float64)) / self.gain[:, None]
        values[self.digital == missing_value(self.digital.dtype)] = np.nan
        return values.astype(np.float32)

    @property
    def signal(self) -> npt.NDArray[np.float32]:
        """(leads, samples) in millivolt, NaN where a sample is missing."""
        if self.unit != "mV":
            raise UnitError(
                f"recording '{self.record_id}' is in raw steps (adu): its file gives no gain, so millivolt "
                "are unknown. Use .physical() where the scale does not matter, or scale it yourself."
            )
        return self.physical()

    def select(self, leads: str | Sequence[str]) -> Recording:
        """The same recording with just these leads, in this order."""
        leads = (leads,) if isinstance(leads, str) else tuple(leads)
        absent = [lead for lead in leads if lead not in self.leads]
        if absent:
            raise LeadError(
                f"recording '{self.record_id}' has no lead {', '.join(absent)}; it has {', '.join(self.leads)}"
            )
        again = sorted({lead for lead in leads if leads.count(lead) > 1})
        if again:
            raise LeadError(f"lead {', '.join(again)} is named more than once; name each lead once")
        rows = [self.leads.index(lead) for lead in leads]
        return replace(
            self, digital=self.digital[rows], gain=self.gain[rows], baseline=self.baseline[rows], leads=leads
        )


def quantize(values: npt.NDArray[np.floating], gain: float = MICROVOLT_GAIN) -> Digital:
    """Round physical values to integer steps: int16 where they fit, int32 where not; NaN is missing."""
    steps = np.asarray(values, dtype=np.float64) * gain
    np.rint(steps, out=steps)
    absent = ~np.isfinite(steps)
    steps[absent] = 0
    peak = np.abs(steps).max(initial=0)
    if peak > np.iinfo(np.int32).max:
        raise ValueError(f"values up to {peak / gain:g} do not fit 32 bits at {gain:g} steps per unit")
    digital: Digital = steps.astype(np.int16) if peak <= np.iinfo(np.int16).max else steps.astype(np.int32)
    digital[absent] = missing_value(digital.dtype)
    return digital


def to_int32(digital: Digital) -> Digital:
    """The same values as int32, missing samples marked as that type marks them."""
    if digital.dtype == np.int32:
        return digital
    wide = digital.astype(np.int32)
    wide[digital == missing_value(np.int16)] = missing_value(np.int32)
    return wide


def to_int16(digital: Digital) -> Digital:
    """The same values, all of which must fit, as int16, missing samples marked as that type marks them."""
    small = digital.astype(np.int16)
    small[digital == missing_value(digital.dtype)] = missing_value(np.int16)
    return small
