"""Normal ranges of measurements, for adults only, with their sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from clocs.measurements.results import Measurements

MIN_AGE: Final = 18.0
"""Minimum age in years."""
BRADYCARDIA: Final = "ACC/AHA/HRS guideline on bradycardia and conduction delay, 2018"
TACHYCARDIA: Final = "ACC/AHA/HRS guideline on supraventricular tachycardia, 2015"
CONDUCTION: Final = "AHA/ACCF/HRS recommendations for the ECG, part III: conduction disturbances, 2009"
REPOLARISATION: Final = (
    "AHA/ACCF/HRS recommendations for the ECG, part IV: ST segment, T and U waves, QT interval, 2009"
)
CHAMBERS: Final = "AHA/ACCF/HRS recommendations for the ECG, part V: cardiac chamber hypertrophy, 2009"


@dataclass(frozen=True)
class NormalRange:
    """Values that are not abnormal in adults."""

    low: float | None
    """Lowest value; None: there is no limit."""
    high: float | None
    """Highest value; None: there is no limit."""
    source: str
    """Publication that states the limits."""

    def position(self, value: float) -> Literal["below", "within", "above"]:
        """Return where a value is."""
        if self.low is not None and value < self.low:
            return "below"
        return "above" if self.high is not None and value > self.high else "within"


def normal_ranges(
    measured: Measurements, age: float | None, sex: Literal["female", "male"] | None
) -> dict[str, NormalRange]:
    """Return the normal ranges that hold for a patient, by the names of the measurements.

    Args:
        measured: The measurements. QRS, QT and axes of paced beats, and QTc of irregular beats have no range.
        age: Age in years. Below 18, or unknown: there is no range.
        sex: Sex. Unknown: QTc has no range.

    Example:
        >>> measured = clocs.measure(np.zeros((1, 5000), np.float32), 500, ["II"])
        >>> normal_ranges(measured, 50, "female")["pr_interval"].high
        200.0
        >>> normal_ranges(measured, 12, "female")
        {}
    """
    if age is None or age < MIN_AGE:
        return {}
    found = {"heart_rate": NormalRange(50.0, 100.0, f"{BRADYCARDIA}; {TACHYCARDIA}")}
    if measured.paced:
        return found
    found |= {
        "p_duration": NormalRange(None, 120.0, CHAMBERS),
        "pr_interval": NormalRange(120.0, 200.0, f"{CONDUCTION}; {BRADYCARDIA}"),
        "qrs_duration": NormalRange(None, 110.0, CONDUCTION),
        "qrs_axis": NormalRange(-30.0, 90.0, CONDUCTION),
    }
    if sex is not None and measured.regular:
        corrected = NormalRange(None, 459.0 if sex == "female" else 449.0, REPOLARISATION)
        found |= {"qtc_bazett": corrected, "qtc_fridericia": corrected}
    return found
