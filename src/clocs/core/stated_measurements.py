"""Measurements that a file states: heart rate, intervals and axes, as its device or a reader entered them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

PREFIX: Final = "stated_"
"""Beginning of the names of the columns in which a store keeps stated measurements."""
LIMITS: Final = {
    "heart_rate": (10.0, 400.0),
    "p_duration": (20.0, 300.0),
    "pr_interval": (40.0, 800.0),
    "qrs_duration": (30.0, 400.0),
    "qt_interval": (100.0, 1000.0),
    "qtc_interval": (100.0, 1000.0),
    "qtc_bazett": (100.0, 1000.0),
    "qtc_fridericia": (100.0, 1000.0),
    "p_axis": (-180.0, 360.0),
    "qrs_axis": (-180.0, 360.0),
    "t_axis": (-180.0, 360.0),
}
"""Plausible values in beats per minute, ms and degrees. Others, such as 999 and 29999, mean that there is no value."""
_INTERVALS_BY_AXIS: Final = {
    "p_axis": ("p_duration", "pr_interval"),
    "qrs_axis": ("qrs_duration",),
    "t_axis": ("qt_interval",),
}


@dataclass(frozen=True)
class StatedMeasurements:
    """Measurements that a file states. Intervals are in ms, the rate in beats per minute, axes in degrees.

    Example:
        >>> clocs.StatedMeasurements(heart_rate=61, pr_interval=209).values()
        {'heart_rate': 61, 'pr_interval': 209}
    """

    heart_rate: float | None = None
    """Ventricular rate; None if the file does not state it."""
    p_duration: float | None = None
    """Duration of the P wave."""
    pr_interval: float | None = None
    """Start of P to start of QRS."""
    qrs_duration: float | None = None
    """Start to end of QRS."""
    qt_interval: float | None = None
    """Start of QRS to end of T."""
    qtc_interval: float | None = None
    """QT corrected for the heart rate by a formula that the file does not name, or that is neither of the next two."""
    qtc_bazett: float | None = None
    """QT corrected by Bazett's formula, if the file says so."""
    qtc_fridericia: float | None = None
    """QT corrected by Fridericia's formula, if the file says so."""
    p_axis: float | None = None
    """Frontal axis of P, from -180 to 180."""
    qrs_axis: float | None = None
    """Frontal axis of QRS, from -180 to 180."""
    t_axis: float | None = None
    """Frontal axis of T, from -180 to 180."""

    def values(self) -> dict[str, float]:
        """Return the stated values by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


STATED_COLUMNS: Final = {PREFIX + field.name: field.name for field in fields(StatedMeasurements)}
"""Columns of a store with the measurements that they hold."""


def plausible_measurements(values: Mapping[str, float | None]) -> StatedMeasurements:
    """Keep the values that can be measurements.

    Values outside ``LIMITS`` are dropped. An axis of exactly 0 is dropped if no interval of its wave is stated, because
    files write 0 for undefined values.

    Args:
        values: Values by name, None where a file has none.

    Returns:
        The plausible values with two decimals, axes from -180 to 180 degrees.
    """
    kept = {
        name: round(float(value), 2)
        for name, value in values.items()
        if value is not None and LIMITS[name][0] <= value <= LIMITS[name][1]
    }
    for name, intervals in _INTERVALS_BY_AXIS.items():
        if name in kept:
            kept[name] -= 360.0 if kept[name] > 180 else 0.0
            if not kept[name] and kept.keys().isdisjoint(intervals):
                del kept[name]
    return StatedMeasurements(**kept)


def to_columns(stated: StatedMeasurements) -> dict[str, str]:
    """Return stated values as columns of a store: text by name."""
    return {PREFIX + name: f"{value:g}" for name, value in stated.values().items()}


def from_columns(columns: Mapping[str, str]) -> StatedMeasurements:
    """Return the stated values of a store's columns. Text that is no number is no value."""
    return plausible_measurements({name: _number(columns.get(column, "")) for column, name in STATED_COLUMNS.items()})


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
