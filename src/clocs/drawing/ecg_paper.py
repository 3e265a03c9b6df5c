"""Draw a recording on ECG paper to scale: 25 mm per second, 10 mm per millivolt."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.core.recording import Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float32]

MM_PER_SECOND: Final = 25.0
MM_PER_MV: Final = 10.0
MM_PER_INCH: Final = 25.4
MAX_SECONDS: Final = 120.0
"""Maximum duration of a figure: 3 m of paper."""

LEFT, RIGHT, TOP, BOTTOM = 20.0, 5.0, 13.0, 11.0
"""Margins in mm: paper left of the traces, for names and pulses, and right of them; header above and footer below."""
SECONDS_HEIGHT: Final = 4.0
"""Height in mm of the seconds in the footer. Below them is space for three lines."""
BORDER: Final = 4.0
"""Width in mm of the white border."""
MIN_DISTANCE, MAX_DISTANCE = 15.0, 60.0
"""Minimum and maximum distance in mm between the zero lines of adjacent strips."""
CLEARANCE: Final = 2.0
"""Minimum distance in mm between adjacent traces."""
MAX_DEFLECTION: Final = 40.0
"""Maximum deflection of a trace in mm from its zero line. Larger deflections are cut off."""
ADU_SPAN: Final = 15.0
"""Distance in mm from the 0.5th to the 99.5th percentile of a lead in raw steps."""

FINE_GRID, BOLD_GRID, INK, PALE_INK, GAP_COLOR = "#f9dede", "#efb0b0", "#1a1a1a", "#6b6b6b", "#8a8a8a"


@dataclass(frozen=True)
class Strip:
    """A lead on paper."""

    lead: str
    """Name of the lead."""
    values: Floats
    """Height in mm above the zero line, of shape (samples,); NaN for missing samples."""
    zero: float
    """Distance in mm below the zero line of the first strip."""
    is_derived: bool = False
    """True if the lead is computed from I and II. Its name has a star."""


def draw_recording(
    recording: Recording,
    *,
    leads: tuple[str, ...] | None = None,
    seconds: float | None = 10.0,
    start: float = 0.0,
    title: str | None = None,
    notice: str = "",
) -> Figure:
    """Draw a recording on ECG paper, with one lead below the other.

    The figure is to scale if it is printed at 100 %: 25 mm per second and 10 mm per millivolt. Each trace is centered
    on its median.

    Args:
        recording: The recording.
        leads: Leads to draw, from top to bottom; None for all leads.
        seconds: Duration to draw; None for everything after ``start``.
        start: First second to draw.
        title: Title above the paper; None for the record id.
        notice: Line of text below the paper.

    Returns:
        A Matplotlib figure. Its axes are in seconds since ``start`` and in mV.

    Raises:
        ConfigError: The part to draw is outside the recording or too long.
        LeadError: The recording does not have a lead.
        MissingExtraError: Matplotlib is not installed.

    Example:
        >>> recording = clocs.Recording(
        ...     digital=np.zeros((1, 5000), np.int16),
        ...     gain=np.array([1000.0]),
        ...     baseline=np.zeros(1, np.int32),
        ...     sampling_rate=500,
        ...     leads=("II",),
        ... )
        >>> figure = clocs.plot(recording, seconds=5)
        >>> round(figure.get_figwidth() * 25.4)  # width in mm
        158
    """
    if leads is not None:
        recording = recording.select(leads)
    first, end = _sample_range(recording, start, seconds)
    values, scale = to_millimeters(recording, first, end)
    strips = arrange_strips(recording.leads, values, recording.sampling_rate, recording.provenance.derived_leads)
    width = LEFT + np.ceil((end - first) / recording.sampling_rate * MM_PER_SECOND / 5) * 5 + RIGHT
    above, below = paper_extent(strips)
    figure, axes = ruled_paper(float(width), above, below)
    for strip in strips:
        draw_strip(axes, strip, recording.sampling_rate, scale)
    _draw_seconds(axes, first / recording.sampling_rate, end / recording.sampling_rate, below)
    _write_header(figure, recording, title, (first, end))
    _write_footer(figure, [_scale_text(scale, recording.sampling_rate), *_strip_notes(strips)], notice)
    return figure


def _sample_range(recording: Recording, start: float, seconds: float | None) -> tuple[int, int]:
    """Return the first sample to draw and the sample after the last one."""
    if not 0 <= start < recording.seconds:
        raise ConfigError(
            f"start={start:g} is outside the recording of {recording.seconds:g} s. Use a start from 0 to its end."
        )
    length = recording.seconds - start if seconds is None else seconds
    if not 0 < length <= MAX_SECONDS:
        raise ConfigError(f"Cannot draw {length:g} s. Use seconds above 0 and up to {MAX_SECONDS:g}.")
    first = round(start * recording.sampling_rate)
    return first, min(recording.num_samples, max(first + 1, round((start + length) * recording.sampling_rate)))


def to_millimeters(recording: Recording, first: int, end: int) -> tuple[Floats, float | None]:
    """Scale samples to paper.

    Args:
        recording: The recording.
        first: First sample.
        end: Sample after the last one.

    Returns:
        Heights in mm around the median of each lead, of shape (leads, samples), and mm per mV. The scale is None for
        raw steps.
    """
    values = replace(recording, digital=recording.digital[:, first:end]).physical()
    present = np.isfinite(values)
    rows = [row[mask] if mask.any() else np.zeros(1, np.float32) for row, mask in zip(values, present, strict=True)]
    values = values - np.array([np.median(row) for row in rows], np.float32)[:, None]
    if recording.unit == "mV":
        return values * np.float32(MM_PER_MV), MM_PER_MV
    spans = np.array([np.subtract(*np.percentile(row, (99.5, 0.5))) or 1.0 for row in rows], np.float32)
    return values * (np.float32(ADU_SPAN) / spans)[:, None], None


def arrange_strips(
    leads: tuple[str, ...], values: Floats, sampling_rate: float, derived: Collection[str] = ()
) -> list[Strip]:
    """Arrange leads from top to bottom, with zero lines on bold grid lines, as close as their traces allow.

    Args:
        leads: Names of the leads.
        values: Heights in mm, of shape (leads, samples).
        sampling_rate: Sampling rate in Hz.
        derived: Leads that are computed from I and II.

    Returns:
        A strip for each lead.
    """
    block = max(1, round(0.2 * sampling_rate))
    starts = np.arange(0, values.shape[1], block)
    clipped = np.clip(np.nan_to_num(values), -MAX_DEFLECTION, MAX_DEFLECTION)
    highest, lowest = np.maximum.reduceat(clipped, starts, axis=1), np.minimum.reduceat(clipped, starts, axis=1)
    needed = np.max(highest[1:] - lowest[:-1], axis=1, initial=0) + CLEARANCE
    steps = np.ceil(np.clip(needed, MIN_DISTANCE, MAX_DISTANCE) / 5) * 5
    zeros = np.concatenate([[0.0], np.cumsum(steps)])
    return [
        Strip(lead, row, float(zero), lead in derived) for lead, row, zero in zip(leads, values, zeros, strict=True)
    ]


def paper_extent(strips: list[Strip]) -> tuple[float, float]:
    """Return the paper in mm above and below the first zero line, in complete bold squares."""
    highest = [np.nanmax(np.append(strip.values, 10)) - strip.zero for strip in strips]
    lowest = [np.nanmin(np.append(strip.values, -5)) - strip.zero for strip in strips]
    limits = (
        np.array([min(max(highest), MAX_DEFLECTION), -max(min(lowest), -strips[-1].zero - MAX_DEFLECTION)]) + CLEARANCE
    )
    above, below = np.ceil(limits / 5) * 5
    return float(above), float(below)


def ruled_paper(width: float, above: float, below: float) -> tuple[Figure, Axes]:
    """Create a figure of ruled paper in true size.

    Args:
        width: Width of the paper in mm.
        above: Height of the paper in mm above the first zero line.
        below: Height of the paper in mm below the first zero line.

    Returns:
        The figure, and its axes in seconds from the start of the traces and in mV from the first zero line.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing") from error
    height = above + below
    size = width + 2 * BORDER, height + TOP + BOTTOM + 2 * BORDER
    figure = Figure(figsize=(size[0] / MM_PER_INCH, size[1] / MM_PER_INCH), dpi=100, facecolor="white")
    axes = figure.add_axes((BORDER / size[0], (BORDER + BOTTOM) / size[1], width / size[0], height / size[1]))
    axes.set_axis_off()
    axes.set_xlim(-LEFT / MM_PER_SECOND, (width - LEFT) / MM_PER_SECOND)
    axes.set_ylim(-below / MM_PER_MV, above / MM_PER_MV)
    across, up = np.arange(-LEFT, width - LEFT + 0.5), np.arange(-below, above + 0.5)
    for spacing, color, line_width in ((1, FINE_GRID, 0.28), (5, BOLD_GRID, 0.55)):
        x, y = across[across % spacing == 0] / MM_PER_SECOND, up[up % spacing == 0] / MM_PER_MV
        lines = [np.array([(position, -below / MM_PER_MV), (position, above / MM_PER_MV)]) for position in x]
        ends = -LEFT / MM_PER_SECOND, (width - LEFT) / MM_PER_SECOND
        lines += [np.array([(ends[0], position), (ends[1], position)]) for position in y]
        axes.add_collection(
            LineCollection(lines, colors=color, linewidths=line_width, zorder=0, clip_on=False), autolim=False
        )
    return figure, axes


def draw_strip(axes: Axes, strip: Strip, sampling_rate: float, scale: float | None) -> None:
    """Draw the trace and the name of a lead, and a pulse of one millivolt unless the scale is None."""
    from matplotlib.patches import Rectangle

    zero = -strip.zero / MM_PER_MV
    seconds = np.arange(len(strip.values)) / sampling_rate
    (trace,) = axes.plot(
        seconds,
        zero + strip.values / MM_PER_MV,
        color=INK,
        linewidth=0.75,
        solid_joinstyle="round",
        label=strip.lead,
        zorder=3,
    )
    low, high = axes.get_xlim()
    visible = Rectangle(
        (low, zero - MAX_DEFLECTION / MM_PER_MV), high - low, 2 * MAX_DEFLECTION / MM_PER_MV, transform=axes.transData
    )
    trace.set_clip_path(visible)
    if gaps := _missing_spans(np.isnan(strip.values), sampling_rate):
        axes.broken_barh(gaps, (zero - 0.4, 0.8), facecolors=GAP_COLOR, alpha=0.3, linewidth=0, zorder=2)
    name_at = -(LEFT - 2) / MM_PER_SECOND
    name = f"{strip.lead}*" if strip.is_derived else strip.lead
    axes.text(name_at, zero, name, fontsize=9, fontweight="bold", color=INK, va="center", zorder=4)
    if scale is not None:
        pulse = np.array([-9, -8, -8, -3, -3, -2]) / MM_PER_SECOND
        axes.plot(pulse, zero + np.array([0, 0, 1, 1, 0, 0]), color=INK, linewidth=0.75, label="_1 mV", zorder=3)


def _missing_spans(missing: npt.NDArray[np.bool_], sampling_rate: float) -> list[tuple[float, float]]:
    """Return start and duration in seconds of all parts without samples, with a visible minimum duration."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], missing.view(np.int8), [0]))))
    min_duration = 0.5 / MM_PER_SECOND
    return [
        (first / sampling_rate, max(min_duration, (last - first) / sampling_rate))
        for first, last in edges.reshape(-1, 2).tolist()
    ]


def _draw_seconds(axes: Axes, first: float, last: float, below: float) -> None:
    """Write the seconds of the recording along the lower edge."""
    for second in range(int(np.ceil(first - 1e-9)), int(last + 1e-9) + 1):
        axes.text(
            second - first, -below / MM_PER_MV - 0.1, f"{second} s", fontsize=6, color=PALE_INK, ha="center", va="top"
        )


def _write_header(figure: Figure, recording: Recording, title: str | None, samples: tuple[int, int]) -> None:
    """Write title, patient, labels and duration above the paper."""
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    years = "" if recording.age is None else f"{recording.age:g} y"
    person = "  ".join(part for part in (years, recording.sex or "") if part)
    first, last = (sample / recording.sampling_rate for sample in samples)
    duration = f"{recording.seconds:g} s"
    if last - first < recording.seconds:
        duration = f"{first:g} to {last:g} s of {duration}"
    patient = f"patient {recording.patient_id}" if recording.patient_id not in ("", recording.record_id) else ""
    facts = [patient, person, ", ".join(recording.labels), duration]
    left, top = (BORDER + 1) / width, height - BORDER
    name = title or recording.record_id or "recording"
    figure.text(left, (top - 1) / height, name, fontsize=11, fontweight="bold", color=INK, va="top")
    line = "     ".join(fact for fact in facts if fact)
    figure.text(left, (top - 7) / height, line, fontsize=8, color=INK, va="top")


def _write_footer(figure: Figure, notes: list[str], notice: str) -> None:
    """Write notes and the notice below the paper, with line breaks on narrow paper."""
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    text = "\n".join(line for line in ("   ".join(notes), notice) if line)
    figure.text(
        (BORDER + 1) / width,
        (BORDER + BOTTOM - SECONDS_HEIGHT) / height,
        text,
        fontsize=8,
        linespacing=1.1,
        color=INK,
        va="top",
        wrap=True,
    )


def _scale_text(scale: float | None, sampling_rate: float) -> str:
    amplitude = "raw steps (adu), amplitude not to scale" if scale is None else f"{scale:g} mm/mV"
    return f"{MM_PER_SECOND:g} mm/s   {amplitude}   {sampling_rate:g} Hz"


def _strip_notes(strips: list[Strip]) -> list[str]:
    """Return notes on traces that are cut off and on derived leads."""
    notes = []
    if cut := [strip.lead for strip in strips if np.any(np.abs(strip.values) > MAX_DEFLECTION)]:
        notes.append(f"beyond {MAX_DEFLECTION:g} mm, cut off: {', '.join(cut)}")
    if any(strip.is_derived for strip in strips):
        notes.append("* follows from I and II")
    return notes
