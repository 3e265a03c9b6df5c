"""Sheets for printing at true scale: 25 mm per second and 10 mm per millivolt on A4 or Letter, as PDF."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.core.recording import Recording
from clocs.drawing.ecg_paper import (
    BOLD_GRID,
    FINE_GRID,
    INK,
    MAX_DEFLECTION,
    MM_PER_INCH,
    MM_PER_MV,
    MM_PER_SECOND,
    PALE_INK,
    to_millimeters,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Paper = Literal["a4", "letter"]
PAPERS: Final[dict[Paper, tuple[float, float]]] = {"a4": (297.0, 210.0), "letter": (279.4, 215.9)}
"""Width and height in mm of papers in landscape."""
PAGE_SECONDS: Final = 10.0
"""Seconds on a page."""
MAX_PAGES: Final = 20
MAX_ROWS: Final = 8
"""Maximum number of leads below each other, if a recording does not have twelve."""
COLUMNS: Final = (("I", "II", "III"), ("aVR", "aVL", "aVF"), ("V1", "V2", "V3"), ("V4", "V5", "V6"))
"""Leads of the columns of the 3x4 layout."""
RHYTHM: Final = "II"
PULSE_WIDTH, GRID_HEIGHT, GRID_BOTTOM, MARGIN = 10.0, 130.0, 22.0, 8.0
"""Lengths in mm: paper left of the traces, height of the ruled paper, its distance from the lower edge, and the
distance of text from the upper edge."""
RULER: Final = 100.0
"""Length in mm of the printed ruler."""


@dataclass(frozen=True)
class SheetText:
    """Text above and below the traces."""

    heading: str = ""
    """First line, such as an identifier that the user typed."""
    person: str = ""
    """Lines below the heading, such as age and sex."""
    measurements: tuple[str, ...] = ()
    """Lines of the middle column."""
    classes: tuple[str, ...] = ()
    """Lines of the right column."""
    footer: tuple[str, ...] = ()
    """Lines below the paper."""


@dataclass(frozen=True)
class Trace:
    """Part of a lead on a page."""

    lead: str
    """Name of the lead."""
    begin: float
    """First second, counted from the start of the page."""
    end: float
    """End in seconds."""
    row: int
    """Row from the top."""


def draw_sheets(
    recording: Recording,
    text: SheetText,
    *,
    paper: Paper = "a4",
    start: float = 0.0,
    seconds: float = PAGE_SECONDS,
) -> bytes:
    """Draw a range of a recording on printable pages of ten seconds each.

    Twelve leads are drawn as 3x4 with a rhythm strip, other recordings with one lead below the other. The PDF asks the
    viewer not to scale it, and has a ruler of 100 mm to check the print.

    Args:
        recording: The recording.
        text: Text of every page.
        paper: ``a4`` or ``letter``, in landscape.
        start: First second to draw.
        seconds: Duration to draw. At most 20 pages.

    Returns:
        The PDF.

    Raises:
        ConfigError: The range is outside the recording or too long.
        MissingExtraError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_pdf import PdfPages
    except ImportError as error:
        raise MissingExtraError("plot", "printing") from error
    if not 0 <= start < recording.seconds:
        raise ConfigError(f"start={start:g} is outside the recording of {recording.seconds:g} s.")
    if not 0 < seconds <= MAX_PAGES * PAGE_SECONDS:
        raise ConfigError(f"Cannot print {seconds:g} s. Print at most {MAX_PAGES * PAGE_SECONDS:g} s.")
    duration = min(seconds, recording.seconds - start)
    count = max(1, math.ceil(duration / PAGE_SECONDS - 1e-6))
    buffer = io.BytesIO()
    with PdfPages(buffer, metadata={"CreationDate": None}) as pages:
        for page in range(count):
            begin = start + page * PAGE_SECONDS
            end = min(begin + PAGE_SECONDS, start + duration)
            pages.savefig(_draw_page(recording, text, paper, (begin, end), f"page {page + 1} of {count}"))
    return _without_print_scaling(buffer.getvalue())


def _draw_page(recording: Recording, text: SheetText, paper: Paper, span: tuple[float, float], page: str) -> Any:
    """Return the figure of one page, whose axes are in mm from the lower left corner of the paper."""
    from matplotlib.figure import Figure

    width, height = PAPERS[paper]
    figure = Figure(figsize=(width / MM_PER_INCH, height / MM_PER_INCH), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    left = (width - PULSE_WIDTH - PAGE_SECONDS * MM_PER_SECOND) / 2
    _rule(axes, left)
    first, end = (round(second * recording.sampling_rate) for second in span)
    values, scale = to_millimeters(recording, first, max(end, first + 1))
    traces, unprinted = arrange_traces(recording.leads)
    num_rows = max(trace.row for trace in traces) + 1
    for trace in traces:
        row = values[recording.leads.index(trace.lead)]
        zero = GRID_BOTTOM + GRID_HEIGHT * (1 - (trace.row + 0.5) / num_rows)
        name = f"{trace.lead}*" if trace.lead in recording.provenance.derived_leads else trace.lead
        _draw_trace(axes, trace, row, recording.sampling_rate, left + PULSE_WIDTH, zero, name)
        if scale is not None and trace.begin == 0:
            axes.plot(left + np.array([1, 2, 2, 7, 7, 8]), zero + np.array([0, 0, 1, 1, 0, 0]) * scale, **_PEN)
    notes = [_scale_text(scale, recording), f"{span[0]:g} to {span[1]:g} s of {recording.seconds:g} s", page]
    notes += ["* follows from I and II"] if recording.provenance.derived_leads else []
    notes += [f"not printed: {', '.join(unprinted)}"] if unprinted else []
    notes += [f"cut off beyond {MAX_DEFLECTION:g} mm"] if np.any(np.abs(values) > MAX_DEFLECTION) else []
    _write_text(axes, text, "   ".join(notes), left, width, height)
    _draw_ruler(axes, width - left - RULER)
    return figure


_PEN: Final[dict[str, Any]] = {"color": INK, "linewidth": 0.75, "solid_joinstyle": "round", "zorder": 3}


def arrange_traces(leads: tuple[str, ...]) -> tuple[list[Trace], tuple[str, ...]]:
    """Arrange leads on a page: 3x4 with a rhythm strip for twelve leads, otherwise one below the other.

    Args:
        leads: Leads of the recording.

    Returns:
        The traces, and the leads that have no place.
    """
    standard = [lead for column in COLUMNS for lead in column]
    if not set(standard) <= set(leads):
        rows = [Trace(lead, 0.0, PAGE_SECONDS, row) for row, lead in enumerate(leads[:MAX_ROWS])]
        return rows, leads[MAX_ROWS:]
    width = PAGE_SECONDS / len(COLUMNS)
    traces = [
        Trace(lead, number * width, (number + 1) * width, row)
        for number, column in enumerate(COLUMNS)
        for row, lead in enumerate(column)
    ]
    rhythm = Trace(RHYTHM, 0.0, PAGE_SECONDS, len(COLUMNS[0]))
    return [*traces, rhythm], tuple(lead for lead in leads if lead not in standard)


def _rule(axes: Axes, left: float) -> None:
    """Draw the squares of 1 mm and 5 mm."""
    from matplotlib.collections import LineCollection

    right, top = left + PULSE_WIDTH + PAGE_SECONDS * MM_PER_SECOND, GRID_BOTTOM + GRID_HEIGHT
    for spacing, color, line_width in ((1, FINE_GRID, 0.28), (5, BOLD_GRID, 0.55)):
        x, y = np.arange(left, right + 0.5, spacing), np.arange(GRID_BOTTOM, top + 0.5, spacing)
        lines = [np.array([(at, GRID_BOTTOM), (at, top)]) for at in x]
        lines += [np.array([(left, at), (right, at)]) for at in y]
        axes.add_collection(LineCollection(lines, colors=color, linewidths=line_width, zorder=0), autolim=False)


def _draw_trace(
    axes: Axes,
    trace: Trace,
    values: npt.NDArray[np.float32],
    sampling_rate: float,
    left: float,
    zero: float,
    name: str,
) -> None:
    from matplotlib.patches import Rectangle

    begin = left + trace.begin * MM_PER_SECOND
    axes.text(begin + 1, zero + 9, name, fontsize=9, fontweight="bold", color=INK, zorder=4)
    if trace.begin > 0:
        axes.plot([begin, begin], [zero - 3, zero + 3], color=INK, linewidth=0.5, zorder=3)
    first, end = (round(second * sampling_rate) for second in (trace.begin, trace.end))
    part = values[first:end]
    if not len(part):
        return
    at = left + np.arange(first, first + len(part)) / sampling_rate * MM_PER_SECOND
    (line,) = axes.plot(at, zero + part, **_PEN)
    low, high = max(GRID_BOTTOM, zero - MAX_DEFLECTION), min(GRID_BOTTOM + GRID_HEIGHT, zero + MAX_DEFLECTION)
    width = (trace.end - trace.begin) * MM_PER_SECOND
    line.set_clip_path(Rectangle((begin, low), width, high - low, transform=axes.transData))


def _write_text(axes: Axes, text: SheetText, notes: str, left: float, width: float, height: float) -> None:
    top = height - MARGIN

    def write(x: float, y: float, content: str, size: float = 8, weight: str = "normal") -> None:
        options: dict[str, Any] = {
            "fontsize": size,
            "fontweight": weight,
            "linespacing": 1.25,
            "color": INK,
            "va": "top",
        }
        axes.text(x, y, content, parse_math=False, **options)

    write(left, top, text.heading or "ECG", 12, "bold")
    write(left, top - 7, text.person)
    middle, right = left + 0.24 * (width - 2 * left), left + 0.62 * (width - 2 * left)
    half = -(-len(text.measurements) // 2)
    write(middle, top, "\n".join(text.measurements[:half]))
    write(middle + 46, top, "\n".join(text.measurements[half:]))
    write(right, top, "\n".join(text.classes))
    write(left, GRID_BOTTOM - 1.5, "\n".join([notes, *text.footer]), 7)


def _draw_ruler(axes: Axes, left: float) -> None:
    """Draw a ruler of 100 mm with a tick every 10 mm in the lower right corner."""
    y = 9.0
    axes.plot([left, left + RULER], [y, y], color=INK, linewidth=0.75)
    for tick in range(0, 101, 10):
        length = 3.0 if tick in (0, 50, 100) else 1.8
        axes.plot([left + tick, left + tick], [y, y + length], color=INK, linewidth=0.5)
    axes.text(
        left + RULER / 2, y - 0.8, "100 mm if printed at true scale", fontsize=6, color=PALE_INK, ha="center", va="top"
    )


def _scale_text(scale: float | None, recording: Recording) -> str:
    amplitude = "raw steps (adu), amplitude not to scale" if scale is None else f"{MM_PER_MV:g} mm/mV"
    return f"{MM_PER_SECOND:g} mm/s   {amplitude}   {recording.sampling_rate:g} Hz"


def _without_print_scaling(pdf: bytes) -> bytes:
    """Append an update of the catalog that asks viewers to print at true size (PDF 32000-1, section 12.2)."""
    trailer = pdf[pdf.rindex(b"trailer") :]
    found = re.search(rb"/Root (\d+) 0 R", trailer)
    previous = re.search(rb"startxref\s+(\d+)", trailer)
    entries = re.search(rb"<<(.*)>>", trailer, re.DOTALL)
    assert found is not None
    assert previous is not None
    assert entries is not None
    number = found[1]
    catalog = re.search(rb"\n" + number + rb" 0 obj\s*<<(.*?)>>\s*endobj", pdf, re.DOTALL)
    assert catalog is not None
    preferences = b"/ViewerPreferences << /PrintScaling /None >>"
    update = number + b" 0 obj\n<<" + catalog[1] + b" " + preferences + b" >>\nendobj\n"
    start = len(pdf)
    table = b"xref\n%s 1\n%010d 00000 n \n" % (number, start)
    end = b"trailer\n<<%s /Prev %s >>\nstartxref\n%d\n%%%%EOF\n" % (entries[1], previous[1], start + len(update))
    return pdf + update + table + end
