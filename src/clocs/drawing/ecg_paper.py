"""A recording on ECG paper, true to scale: 25 mm a second, 10 mm a millivolt, every lead at full length."""

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
"""3 m of paper; more is for several pictures."""

LEFT, RIGHT, TOP, BOTTOM = 20.0, 5.0, 13.0, 11.0
"""mm: paper left of the traces, for names and pulses, and right of them; header and footer outside the paper."""
SECONDS: Final = 4.0
"""mm of the footer that the seconds take; below them is room for three lines."""
BORDER: Final = 4.0
"""mm of white around everything."""
NEAREST, FARTHEST = 15.0, 60.0
"""mm between the zero lines of neighbouring strips: at least room for a pulse, and at most."""
CLEARANCE: Final = 2.0
"""mm kept free between neighbouring traces."""
REACH: Final = 40.0
"""mm a trace may go up or down from its zero line; beyond, it is cut off."""
ADU_SPAN: Final = 15.0
"""mm from the 0.5th to the 99.5th percentile, where millivolt are unknown."""

FINE, BOLD, INK, PALE, GAP = "#f9dede", "#efb0b0", "#1a1a1a", "#6b6b6b", "#8a8a8a"


@dataclass(frozen=True)
class Strip:
    """One lead as it is drawn."""

    lead: str
    values: Floats
    """(samples,) mm above its zero line, NaN where missing."""
    zero: float
    """mm below the topmost strip's zero line."""
    derived: bool = False
    """Not in the file, but computed from I and II: a star says so."""


def draw_recording(
    recording: Recording,
    *,
    leads: tuple[str, ...] | None = None,
    seconds: float | None = 10.0,
    start: float = 0.0,
    title: str | None = None,
    notice: str = "",
) -> Figure:
    """Draw leads (all unless named) one below the other, ``seconds`` long from ``start`` (None: to the end).

    Printed at 100 %, the figure is to scale. Strips keep the distance that their amplitudes need; a
    trace is centred on its median, as a machine's filter would. Axes: seconds since ``start``, and mV.
    ``notice``: a line below everything else.
    """
    if leads is not None:
        recording = recording.select(leads)
    first, last = _window(recording, start, seconds)
    values, scale = to_millimeters(recording, first, last)
    strips = arrange(recording.leads, values, recording.sampling_rate, recording.provenance.derived_leads)
    width = LEFT + np.ceil((last - first) / recording.sampling_rate * MM_PER_SECOND / 5) * 5 + RIGHT
    above, below = extent(strips)
    figure, axes = ruled_paper(float(width), above, below)
    for strip in strips:
        draw_strip(axes, strip, recording.sampling_rate, scale)
    _draw_seconds(axes, first / recording.sampling_rate, last / recording.sampling_rate, below)
    _write_header(figure, recording, title, (first, last))
    _write_footer(figure, [_scale_words(scale, recording.sampling_rate), *_strip_words(strips)], notice)
    return figure


def _window(recording: Recording, start: float, seconds: float | None) -> tuple[int, int]:
    """First and last sample, the last excluded."""
    if not 0 <= start < recording.seconds:
        raise ConfigError(f"start {start:g} s lies outside the recording of {recording.seconds:g} s")
    length = recording.seconds - start if seconds is None else seconds
    if not 0 < length <= MAX_SECONDS:
        raise ConfigError(f"cannot draw {length:g} s on one sheet; seconds may be up to {MAX_SECONDS:g}")
    first = round(start * recording.sampling_rate)
    return first, min(recording.num_samples, max(first + 1, round((start + length) * recording.sampling_rate)))


def to_millimeters(recording: Recording, first: int, last: int) -> tuple[Floats, float | None]:
    """(leads, samples) in mm around each lead's median, and mm per mV; None where millivolt are unknown."""
    values = replace(recording, digital=recording.digital[:, first:last]).physical()
    present = np.isfinite(values)
    filled = [
        row[known] if known.any() else np.zeros(1, np.float32) for row, known in zip(values, present, strict=True)
    ]
    values = values - np.array([np.median(row) for row in filled], np.float32)[:, None]
    if recording.unit == "mV":
        return values * np.float32(MM_PER_MV), MM_PER_MV
    spans = np.array([np.subtract(*np.percentile(row, (99.5, 0.5))) or 1.0 for row in filled], np.float32)
    return values * (np.float32(ADU_SPAN) / spans)[:, None], None


def arrange(leads: tuple[str, ...], values: Floats, sampling_rate: float, derived: Collection[str] = ()) -> list[Strip]:
    """Strips from top to bottom, each zero line on a bold line, as near to the one above as both traces allow."""
    size = max(1, round(0.2 * sampling_rate))
    starts = np.arange(0, values.shape[1], size)
    held = np.clip(np.nan_to_num(values), -REACH, REACH)
    highest, lowest = np.maximum.reduceat(held, starts, axis=1), np.minimum.reduceat(held, starts, axis=1)
    needed = np.max(highest[1:] - lowest[:-1], axis=1, initial=0) + CLEARANCE
    steps = np.ceil(np.clip(needed, NEAREST, FARTHEST) / 5) * 5
    zeros = np.concatenate([[0.0], np.cumsum(steps)])
    return [
        Strip(lead, row, float(zero), lead in derived) for lead, row, zero in zip(leads, values, zeros, strict=True)
    ]


def extent(strips: list[Strip]) -> tuple[float, float]:
    """mm of paper above the first zero line, and below it down to the lower edge, in whole bold squares."""
    over = [np.nanmax(np.append(strip.values, 10)) - strip.zero for strip in strips]
    under = [np.nanmin(np.append(strip.values, -5)) - strip.zero for strip in strips]
    limits = np.array([min(max(over), REACH), -max(min(under), -strips[-1].zero - REACH)]) + CLEARANCE
    above, below = np.ceil(limits / 5) * 5
    return float(above), float(below)


def ruled_paper(width: float, above: float, below: float) -> tuple[Figure, Axes]:
    """A figure of the paper's true size, ruled; x in seconds from the traces' start, y in mV from the first zero."""
    try:
        from matplotlib.collections import LineCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing") from error
    height = above + below
    full = width + 2 * BORDER, height + TOP + BOTTOM + 2 * BORDER
    figure = Figure(figsize=(full[0] / MM_PER_INCH, full[1] / MM_PER_INCH), dpi=100, facecolor="white")
    place = BORDER / full[0], (BORDER + BOTTOM) / full[1], width / full[0], height / full[1]
    axes = figure.add_axes(place)
    axes.set_axis_off()
    axes.set_xlim(-LEFT / MM_PER_SECOND, (width - LEFT) / MM_PER_SECOND)
    axes.set_ylim(-below / MM_PER_MV, above / MM_PER_MV)
    across, up = np.arange(-LEFT, width - LEFT + 0.5), np.arange(-below, above + 0.5)
    for every, colour, thick in ((1, FINE, 0.28), (5, BOLD, 0.55)):
        x, y = across[across % every == 0] / MM_PER_SECOND, up[up % every == 0] / MM_PER_MV
        lines = [np.array([(at, -below / MM_PER_MV), (at, above / MM_PER_MV)]) for at in x]
        lines += [np.array([(-LEFT / MM_PER_SECOND, at), ((width - LEFT) / MM_PER_SECOND, at)]) for at in y]
        axes.add_collection(
            LineCollection(lines, colors=colour, linewidths=thick, zorder=0, clip_on=False), autolim=False
        )
    return figure, axes


def draw_strip(axes: Axes, strip: Strip, sampling_rate: float, scale: float | None) -> None:
    """A lead's trace, name and pulse of one millivolt; the pulse only where millivolt are known."""
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
    reach = Rectangle((low, zero - REACH / MM_PER_MV), high - low, 2 * REACH / MM_PER_MV, transform=axes.transData)
    trace.set_clip_path(reach)
    if gaps := _gaps(np.isnan(strip.values), sampling_rate):
        axes.broken_barh(gaps, (zero - 0.4, 0.8), facecolors=GAP, alpha=0.3, linewidth=0, zorder=2)
    name_at = -(LEFT - 2) / MM_PER_SECOND
    name = f"{strip.lead}*" if strip.derived else strip.lead
    axes.text(name_at, zero, name, fontsize=9, fontweight="bold", color=INK, va="center", zorder=4)
    if scale is not None:
        pulse = np.array([-9, -8, -8, -3, -3, -2]) / MM_PER_SECOND
        axes.plot(pulse, zero + np.array([0, 0, 1, 1, 0, 0]), color=INK, linewidth=0.75, label="_1 mV", zorder=3)


def _gaps(missing: npt.NDArray[np.bool_], sampling_rate: float) -> list[tuple[float, float]]:
    """(start, length) in seconds of every stretch without samples, wide enough to be seen."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], missing.view(np.int8), [0]))))
    least = 0.5 / MM_PER_SECOND
    return [
        (first / sampling_rate, max(least, (last - first) / sampling_rate))
        for first, last in edges.reshape(-1, 2).tolist()
    ]


def _draw_seconds(axes: Axes, first: float, last: float, below: float) -> None:
    """The recording's own seconds, along the lower edge."""
    for second in range(int(np.ceil(first - 1e-9)), int(last + 1e-9) + 1):
        axes.text(
            second - first, -below / MM_PER_MV - 0.1, f"{second} s", fontsize=6, color=PALE, ha="center", va="top"
        )


def _write_header(figure: Figure, recording: Recording, title: str | None, shown: tuple[int, int]) -> None:
    """Who and what, above the paper."""
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    years = "" if recording.age is None else f"{recording.age:g} y"
    person = "  ".join(part for part in (years, recording.sex or "") if part)
    first, last = (sample / recording.sampling_rate for sample in shown)
    length = f"{recording.seconds:g} s"
    if last - first < recording.seconds:
        length = f"{first:g} to {last:g} s of {length}"
    patient = f"patient {recording.patient_id}" if recording.patient_id not in ("", recording.record_id) else ""
    facts = [patient, person, ", ".join(recording.labels), length]
    left, top = (BORDER + 1) / width, height - BORDER
    name = title or recording.record_id or "recording"
    figure.text(left, (top - 1) / height, name, fontsize=11, fontweight="bold", color=INK, va="top")
    line = "     ".join(fact for fact in facts if fact)
    figure.text(left, (top - 7) / height, line, fontsize=8, color=INK, va="top")


def _write_footer(figure: Figure, words: list[str], notice: str) -> None:
    """What one must know to read the paper, and below it the notice; broken where the paper is narrow."""
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    text = "\n".join(line for line in ("   ".join(words), notice) if line)
    figure.text(
        (BORDER + 1) / width,
        (BORDER + BOTTOM - SECONDS) / height,
        text,
        fontsize=8,
        linespacing=1.1,
        color=INK,
        va="top",
        wrap=True,
    )


def _scale_words(scale: float | None, sampling_rate: float) -> str:
    amplitude = "raw steps (adu), amplitude not to scale" if scale is None else f"{scale:g} mm/mV"
    return f"{MM_PER_SECOND:g} mm/s   {amplitude}   {sampling_rate:g} Hz"


def _strip_words(strips: list[Strip]) -> list[str]:
    """What was done to strips, where it was."""
    words = []
    if cut := [strip.lead for strip in strips if np.any(np.abs(strip.values) > REACH)]:
        words.append(f"beyond {REACH:g} mm, cut off: {', '.join(cut)}")
    if any(strip.derived for strip in strips):
        words.append("* follows from I and II")
    return words
