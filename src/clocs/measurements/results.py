"""Results of measuring an ECG: values with their spread, and the median beat with its marks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.stated_measurements import StatedMeasurements

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Measurement:
    """A value, and its spread over beats and leads."""

    value: float | None = None
    """The value; None if it cannot be measured."""
    beat_spread: float | None = None
    """Spread over single beats: their median absolute deviation, scaled to a standard deviation."""
    lead_spread: float | None = None
    """Spread over single leads, in the same way; None for one lead."""
    reason: str = ""
    """Why there is no value; empty if there is one."""


@dataclass(frozen=True, eq=False)
class MarkedBeat:
    """The median beat with the marks of its waves, for drawing."""

    signal: Values
    """Median beat in mV of shape (leads, samples)."""
    sampling_rate: float
    """Sampling rate in Hz."""
    leads: tuple[str, ...]
    """Names of the leads."""
    marks: dict[str, float]
    """``p_onset``, ``p_offset``, ``qrs_onset``, ``qrs_offset`` and ``t_offset`` in samples, where they are measured."""
    middle: int
    """Sample of the middle of QRS."""
    positions: tuple[float, ...]
    """Seconds in the recording of the middle of QRS of the beats in the median."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """Measurements of an ECG. Durations and intervals are in ms, rates in beats per minute, axes in degrees.

    Example:
        >>> clocs.measure(np.zeros((1, 5000), np.float32), 500, ["II"]).heart_rate
        Measurement(value=None, beat_spread=None, lead_spread=None, reason='all leads are flat')
    """

    heart_rate: Measurement
    """Mean heart rate."""
    rr_variation: Measurement
    """Standard deviation of the intervals between beats, as a percentage of their mean."""
    p_duration: Measurement
    """Duration of the P wave."""
    pr_interval: Measurement
    """Start of P to start of QRS."""
    qrs_duration: Measurement
    """Start to end of QRS."""
    qt_interval: Measurement
    """Start of QRS to end of T."""
    qtc_bazett: Measurement
    """QT divided by the square root of the interval between beats in seconds."""
    qtc_fridericia: Measurement
    """QT divided by the cube root of the interval between beats in seconds."""
    qrs_axis: Measurement
    """Frontal axis of QRS."""
    t_axis: Measurement
    """Frontal axis of T."""
    regular: bool | None
    """True if nine of ten intervals between beats differ by at most 10 % from their median; None without beats."""
    num_beats: int
    """Number of detected beats."""
    num_median_beats: int
    """Number of beats in the median beat."""
    paced: bool
    """True if pacing spikes were found. The PR interval is not measured then."""
    leads: tuple[str, ...]
    """Leads that were used."""
    beat: MarkedBeat | None = None
    """The median beat and its marks."""

    def values(self) -> dict[str, Measurement]:
        """Return the measurements by name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Measurement)}

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the median beat, for JSON."""
        rows = {name: asdict(measurement) for name, measurement in self.values().items()}
        rest = ("regular", "num_beats", "num_median_beats", "paced", "leads")
        return {**rows, **{name: getattr(self, name) for name in rest}}


NAMES: Final = tuple(field.name for field in fields(Measurements) if field.type == "Measurement")
"""Names of the measurements."""
TITLES: Final = {
    "heart_rate": ("heart rate", "/min"),
    "rr_variation": ("variation of RR", "%"),
    "p_duration": ("P", "ms"),
    "pr_interval": ("PR", "ms"),
    "qrs_duration": ("QRS", "ms"),
    "qt_interval": ("QT", "ms"),
    "qtc_bazett": ("QTc (Bazett)", "ms"),
    "qtc_fridericia": ("QTc (Fridericia)", "ms"),
    "qrs_axis": ("QRS axis", "degrees"),
    "t_axis": ("T axis", "degrees"),
}
"""Name and unit of each measurement."""
STATED_TITLES: Final = TITLES | {"qtc_interval": ("QTc (formula not named)", "ms"), "p_axis": ("P axis", "degrees")}
"""Name and unit of each measurement, also of those that only files state."""
STATED_ONLY: Final = "stated in the file only"
"""Reason why there is no value of a measurement that only files state."""


def with_stated(measured: Measurements, stated: StatedMeasurements) -> dict[str, tuple[Measurement, float | None]]:
    """Return each measurement beside the value that the file states, by name.

    Args:
        measured: The measurements.
        stated: Values that the file states.

    Returns:
        Measured and stated values. Names that only the file has come last, with a reason instead of a value.
    """
    values, given = measured.values(), stated.values()
    only = {name: Measurement(reason=STATED_ONLY) for name in given if name not in values}
    return {name: (item, given.get(name)) for name, item in (values | only).items()}
