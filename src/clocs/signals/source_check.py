"""Check of a source of twelve-lead ECGs by its signals: the order of its limb leads, and its amplitude.

A dataset declares names and gains of its leads. Single recordings may deviate for other reasons, so a declaration is
judged by many of them: by the order that fits the lead equations best, and by typical amplitudes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from clocs.core.recording import Recording, missing_value
from clocs.signals.lead_equations import LIMB_LEADS, fit_order
from clocs.signals.leads import STANDARD_LEADS

MAX_SECONDS: Final = 30.0
"""Measured duration of a recording in seconds, from its start."""
WINDOW_SECONDS: Final = 5.0
"""Duration of a window in seconds, which contains several beats and little baseline wander."""
AMPLITUDE_RANGE: Final = (0.3, 3.0)
"""Plausible medians of a source in mV, of the R wave in lead II and of the largest lead."""
MAX_MEDIAN_ERROR: Final = 0.1
"""Maximum median deviation from the lead equations, as a fraction of the amplitude of the limb leads (both RMS)."""
MIN_RECORDINGS: Final = 10
"""Minimum number of measured recordings for a judgement of the amplitude."""
MIN_ORDERED: Final = 3
"""Minimum number of measured recordings for a judgement of the order of leads."""
AS_DECLARED: Final = "as declared"


@dataclass(frozen=True)
class SignalMeasurement:
    """Lead order and amplitude of one recording. A value is None if it cannot be measured.

    The order needs six measured limb leads, the amplitude twelve leads in mV.
    """

    order: str | None = None
    """``as declared``, or the leads that misnamed leads seem to be."""
    error: float | None = None
    """Deviation from the lead equations, as a fraction of the amplitude of the limb leads (both RMS)."""
    peak: float | None = None
    """Typical maximum of the largest lead in mV."""
    r_amplitude: float | None = None
    """Typical maximum of lead II in mV."""


class SignalMeasurements(BaseModel):
    """Lead order and amplitude of several recordings, as a task of an ingest keeps them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured: int = 0
    """Number of measured recordings, with any leads."""
    orders: dict[str, int] = {}
    """Number of recordings by the order of limb leads that fits the lead equations."""
    errors: tuple[float, ...] = ()
    """Deviations from the lead equations."""
    peaks: tuple[float, ...] = ()
    """Typical maxima of the largest leads in mV."""
    r_amplitudes: tuple[float, ...] = ()
    """Typical maxima of lead II in mV."""


class SignalSummary(BaseModel):
    """Lead order and amplitude of a source, and what is wrong with them. Medians are None if nothing was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured: int
    """Number of measured recordings, with any leads."""
    orders: dict[str, int]
    """Number of recordings by the order of limb leads that fits the lead equations, most frequent first."""
    error: float | None
    """Median deviation from the lead equations, as a fraction of the amplitude of the limb leads (both RMS)."""
    peak: float | None
    """Median of the typical maximum of the largest lead in mV."""
    r_amplitude: float | None
    """Median R wave of lead II in mV."""
    wrong_order: str = ""
    """Description of a wrong order of leads; empty if the declared one fits or the leads are not calibrated."""
    wrong_amplitude: str = ""
    """Description of an implausible amplitude; empty if it is plausible or the leads are not calibrated."""


def measure_signals(recording: Recording) -> SignalMeasurement:
    """Measure lead order and amplitude of a recording."""
    num_samples = max(int(MAX_SECONDS * recording.sampling_rate), 1)
    part = dataclasses.replace(recording, digital=recording.digital[:, :num_samples])
    present = part.digital != missing_value(part.digital.dtype)
    measured = set(recording.leads) - set(recording.provenance.derived_leads)
    fit = fit_order(part, present) if measured >= set(LIMB_LEADS) else None
    order = None if fit is None else ", ".join(f"{name} is {lead}" for name, lead in fit.order.items()) or AS_DECLARED
    has_amplitude = part.unit == "mV" and set(recording.leads) >= set(STANDARD_LEADS)
    peaks, heights = _window_maxima(part, present) if has_amplitude else ({}, {})
    return SignalMeasurement(
        order=order,
        error=_rounded(None if fit is None else fit.error),
        peak=_rounded(max(peaks.values(), default=None)),
        r_amplitude=_rounded(heights.get("II")),
    )


def _window_maxima(recording: Recording, present: npt.NDArray[np.bool_]) -> tuple[dict[str, float], dict[str, float]]:
    """Return for each lead the medians over windows of the maximum distance from and above the window's median, in mV.

    Leads with missing samples are left out.
    """
    size = min(max(int(WINDOW_SECONDS * recording.sampling_rate), 1), recording.num_samples)
    count = recording.num_samples // size
    rows = np.flatnonzero(present.all(axis=1))
    if not count or not len(rows):
        return {}, {}
    windows = recording.digital[rows, : count * size].reshape(len(rows), count, size).astype(np.float32)
    windows -= np.median(windows, axis=2, keepdims=True)
    gain = recording.gain[rows]
    above = np.median(windows.max(axis=2), axis=1) / gain
    below = np.median(windows.min(axis=2), axis=1) / gain
    peaks = np.median(np.abs(windows).max(axis=2), axis=1) / np.abs(gain)
    leads = [recording.leads[row] for row in rows]
    heights = np.where(gain > 0, above, below)
    return dict(zip(leads, peaks.tolist(), strict=True)), dict(zip(leads, heights.tolist(), strict=True))


def collect_measurements(items: Sequence[SignalMeasurement]) -> SignalMeasurements:
    """Return the measurements of several recordings together."""
    return SignalMeasurements(
        measured=len(items),
        orders=Counter(item.order for item in items if item.order is not None),
        errors=tuple(item.error for item in items if item.error is not None),
        peaks=tuple(item.peak for item in items if item.peak is not None),
        r_amplitudes=tuple(item.r_amplitude for item in items if item.r_amplitude is not None),
    )


def merge_measurements(parts: Iterable[SignalMeasurements]) -> SignalMeasurements:
    """Return the measurements of several tasks together."""
    parts, orders = list(parts), Counter[str]()
    for part in parts:
        orders.update(part.orders)
    return SignalMeasurements(
        measured=sum(part.measured for part in parts),
        orders=orders,
        errors=tuple(value for part in parts for value in part.errors),
        peaks=tuple(value for part in parts for value in part.peaks),
        r_amplitudes=tuple(value for part in parts for value in part.r_amplitudes),
    )


def summarize_signals(measurements: SignalMeasurements, *, calibrated: bool = True) -> SignalSummary:
    """Judge lead order and amplitude of a source by measurements of its recordings.

    Args:
        measurements: Measurements of recordings of the source.
        calibrated: False if leads have no common scale in mV. Then nothing is judged.

    Returns:
        Counts, medians, and descriptions of what is wrong.
    """
    summary = SignalSummary(
        measured=measurements.measured,
        orders=dict(sorted(measurements.orders.items(), key=lambda pair: (-pair[1], pair[0]))),
        error=_median(measurements.errors),
        peak=_median(measurements.peaks),
        r_amplitude=_median(measurements.r_amplitudes),
    )
    if not calibrated:
        return summary
    num_peaks = len(measurements.peaks)
    found = {"wrong_order": _wrong_order(summary), "wrong_amplitude": _wrong_amplitude(summary, num_peaks)}
    return summary.model_copy(update=found)


def _wrong_order(summary: SignalSummary) -> str:
    total = sum(summary.orders.values())
    misnamed = total - summary.orders.get(AS_DECLARED, 0)
    if total < MIN_ORDERED:
        return ""
    if 2 * misnamed > total:
        order, count = next(pair for pair in summary.orders.items() if pair[0] != AS_DECLARED)
        return (
            f"The limb leads are not in the declared order: {misnamed} of {total} measured recordings satisfy the lead "
            f"equations better in another one, {count} of them if {order}"
        )
    if summary.error is not None and summary.error > MAX_MEDIAN_ERROR:
        return (
            f"The limb leads satisfy the lead equations in no order: {total} measured recordings deviate from them by "
            f"{summary.error:.2g} of their amplitude (median)"
        )
    return ""


def _wrong_amplitude(summary: SignalSummary, count: int) -> str:
    if count < MIN_RECORDINGS:
        return ""
    medians = {"the R wave in lead II": summary.r_amplitude, "the largest lead": summary.peak}
    low, high = AMPLITUDE_RANGE
    wrong = [f"{name} has {value:.3g} mV" for name, value in medians.items() if value and not low <= value <= high]
    if not wrong:
        return ""
    return (
        f"The amplitude is implausible: {' and '.join(wrong)} (median of {count} measured recordings), "
        f"{low:g} to {high:g} mV expected"
    )


def _median(values: Sequence[float]) -> float | None:
    return _rounded(float(np.median(values))) if values else None


def _rounded(value: float | None) -> float | None:
    """Round to three significant digits."""
    return None if value is None else float(f"{value:.3g}")
