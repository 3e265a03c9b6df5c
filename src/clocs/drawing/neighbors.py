"""Draw a recording and its nearest neighbors on ECG paper, one below the other and to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from clocs.core.errors import ConfigError, LeadError
from clocs.core.recording import Recording
from clocs.drawing.ecg_paper import (
    BORDER,
    INK,
    LEFT,
    MAX_SECONDS,
    MM_PER_INCH,
    MM_PER_MV,
    MM_PER_SECOND,
    PALE_INK,
    RIGHT,
    Strip,
    arrange_strips,
    draw_strip,
    paper_extent,
    ruled_paper,
    to_millimeters,
)
from clocs.signals.beats import beat_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFERRED_LEADS: Final = ("II", "V2", "V5", "V1", "I")
"""Leads to draw by default, if all recordings have them."""
MAX_LEADS: Final = 2
"""Maximum number of leads by default."""
CAPTION_HEIGHT: Final = 10.0
"""Height in mm of the caption above each recording, for two lines."""
SECONDS_BEFORE_BEAT: Final = 0.5
"""Seconds before the QRS complex at which the recordings are aligned."""
SEARCHED_SECONDS: Final = 10.0
"""Seconds at the start in which that QRS complex is searched."""


def draw_neighbors(
    recordings: Sequence[Recording],
    captions: Sequence[str],
    *,
    leads: tuple[str, ...] | None = None,
    seconds: float = 8.0,
    title: str = "",
) -> Figure:
    """Draw recordings below each other, aligned at a QRS complex. The figure is to scale if printed at 100 %.

    The recordings are aligned at their first QRS complex after half a second. A recording without a detected beat is
    drawn from its start.

    Args:
        recordings: The query, then its neighbors.
        captions: Caption of each recording.
        leads: Leads to draw; None for up to two leads that all recordings have.
        seconds: Duration to draw.
        title: Title of the figure.

    Returns:
        The figure.

    Raises:
        ConfigError: The duration is too long.
        LeadError: The recordings have no lead in common, or lack a named lead.
    """
    if not 0 < seconds <= MAX_SECONDS:
        raise ConfigError(f"Cannot draw {seconds:g} s. Use seconds above 0 and up to {MAX_SECONDS:g}.")
    drawn_leads = leads or _shared_leads(recordings)
    blocks = [_align(recording.select(drawn_leads), seconds) for recording in recordings]
    stacked, height = _stack([strips for strips, _ in blocks])
    above = paper_extent(stacked[0])[0] + CAPTION_HEIGHT
    width = LEFT + np.ceil(seconds * MM_PER_SECOND / 5) * 5 + RIGHT
    figure, axes = ruled_paper(float(width), above, height - above)
    for recording, caption, strips, (_, scale) in zip(recordings, captions, stacked, blocks, strict=True):
        for strip in strips:
            draw_strip(axes, strip, recording.sampling_rate, scale)
        top = paper_extent([replace(strip, zero=strip.zero - strips[0].zero) for strip in strips])[0] - strips[0].zero
        axes.text(
            -(LEFT - 2) / MM_PER_SECOND,
            (top + CAPTION_HEIGHT - 1.5) / MM_PER_MV,
            caption,
            fontsize=8,
            color=INK,
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            zorder=5,
        )
    axes.axvline(SECONDS_BEFORE_BEAT, color=PALE_INK, linewidth=0.6, linestyle=(0, (4, 4)), zorder=1)
    _write_margins(figure, title)
    return figure


def _shared_leads(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Return up to two leads that all recordings have, the preferred ones first."""
    shared = [lead for lead in recordings[0].leads if all(lead in other.leads for other in recordings)]
    if not shared:
        raise LeadError("The recordings have no lead in common. Choose recordings with a common lead.")
    shared.sort(key=lambda lead: PREFERRED_LEADS.index(lead) if lead in PREFERRED_LEADS else len(PREFERRED_LEADS))
    return tuple(shared[:MAX_LEADS])


def _align(recording: Recording, seconds: float) -> tuple[list[Strip], float | None]:
    """Return the strips of a recording from its first beat, and mm per mV."""
    beat = first_beat(recording)
    first = 0 if beat is None else max(0, round((beat - SECONDS_BEFORE_BEAT) * recording.sampling_rate))
    end = min(recording.num_samples, first + round(seconds * recording.sampling_rate))
    values, scale = to_millimeters(recording, first, end)
    return arrange_strips(recording.leads, values, recording.sampling_rate), scale


def first_beat(recording: Recording) -> float | None:
    """Return the time in seconds of the first QRS complex after ``SECONDS_BEFORE_BEAT``, or None without a beat."""
    start = replace(recording, digital=recording.digital[:, : round(SEARCHED_SECONDS * recording.sampling_rate)])
    times = beat_times(start)
    return next((float(time) for time in times if time >= SECONDS_BEFORE_BEAT), None)


def _stack(blocks: Sequence[list[Strip]]) -> tuple[list[list[Strip]], float]:
    """Return the strips with zero lines relative to the first one, and their total height in mm."""
    stacked: list[list[Strip]] = []
    zero = 0.0
    for index, strips in enumerate(blocks):
        above, below = paper_extent(strips)
        if index:
            zero += CAPTION_HEIGHT + above
        stacked.append([replace(strip, zero=strip.zero + zero) for strip in strips])
        zero += below
    return stacked, zero + CAPTION_HEIGHT + paper_extent(blocks[0])[0]


def _write_margins(figure: Figure, title: str) -> None:
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    left, top = (BORDER + 1) / width, height - BORDER
    scale = f"{MM_PER_SECOND:g} mm/s   {MM_PER_MV:g} mm/mV   aligned at the first QRS complex (dashed)"
    figure.text(left, (top - 1) / height, title, fontsize=11, fontweight="bold", color=INK, va="top")
    figure.text(left, (BORDER + 1) / height, scale, fontsize=8, color=INK, va="bottom")
