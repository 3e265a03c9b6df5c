"""A recording and those most like it on one sheet of ECG paper, one below the other, to one scale."""

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
    PALE,
    RIGHT,
    Strip,
    arrange,
    draw_strip,
    extent,
    ruled_paper,
    to_millimeters,
)
from clocs.signals.beats import beat_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFERRED: Final = ("II", "V2", "V5", "V1", "I")
"""Leads that are drawn if none are named, if all recordings have them."""
MOST_LEADS: Final = 2
CAPTION: Final = 10.0
"""mm of paper for the words above each recording: two lines."""
LEAD_IN: Final = 0.5
"""Seconds before the QRS complex at which recordings are aligned."""
LOOKED_THROUGH: Final = 10.0
"""Seconds from the start in which that QRS complex is sought."""


def draw_neighbors(
    recordings: Sequence[Recording],
    captions: Sequence[str],
    *,
    leads: tuple[str, ...] | None = None,
    seconds: float = 8.0,
    title: str = "",
) -> Figure:
    """Draw the query and its neighbours, each under its caption; printed at 100 %, the sheet is to scale.

    They are aligned at their first QRS complex that has half a second before it, found by its steepness, and start
    where they start if none is found. ``leads``: up to two that all have, unless named.
    """
    if not 0 < seconds <= MAX_SECONDS:
        raise ConfigError(f"cannot draw {seconds:g} s on one sheet; seconds may be up to {MAX_SECONDS:g}")
    chosen = leads or _shared_leads(recordings)
    blocks = [_block(recording.select(chosen), seconds) for recording in recordings]
    placed, height = _stacked([strips for strips, _ in blocks])
    above = extent(placed[0])[0] + CAPTION
    width = LEFT + np.ceil(seconds * MM_PER_SECOND / 5) * 5 + RIGHT
    figure, axes = ruled_paper(float(width), above, height - above)
    for recording, caption, strips, (_, scale) in zip(recordings, captions, placed, blocks, strict=True):
        for strip in strips:
            draw_strip(axes, strip, recording.sampling_rate, scale)
        top = extent([replace(strip, zero=strip.zero - strips[0].zero) for strip in strips])[0] - strips[0].zero
        axes.text(
            -(LEFT - 2) / MM_PER_SECOND,
            (top + CAPTION - 1.5) / MM_PER_MV,
            caption,
            fontsize=8,
            color=INK,
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            zorder=5,
        )
    axes.axvline(LEAD_IN, color=PALE, linewidth=0.6, linestyle=(0, (4, 4)), zorder=1)
    _write_margins(figure, title)
    return figure


def _shared_leads(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Up to two leads that all recordings have, the usual ones first."""
    shared = [lead for lead in recordings[0].leads if all(lead in other.leads for other in recordings)]
    if not shared:
        raise LeadError("these recordings have no lead in common; there is nothing to draw below each other")
    shared.sort(key=lambda lead: PREFERRED.index(lead) if lead in PREFERRED else len(PREFERRED))
    return tuple(shared[:MOST_LEADS])


def _block(recording: Recording, seconds: float) -> tuple[list[Strip], float | None]:
    """Strips of one recording around its first beat, and mm per mV."""
    beat = first_beat(recording)
    first = 0 if beat is None else max(0, round((beat - LEAD_IN) * recording.sampling_rate))
    last = min(recording.num_samples, first + round(seconds * recording.sampling_rate))
    values, scale = to_millimeters(recording, first, last)
    return arrange(recording.leads, values, recording.sampling_rate), scale


def first_beat(recording: Recording) -> float | None:
    """Seconds to the steepest place of the first QRS complex that has ``LEAD_IN`` before it; None: none is found."""
    start = replace(recording, digital=recording.digital[:, : round(LOOKED_THROUGH * recording.sampling_rate)])
    times = beat_times(start)
    return next((float(time) for time in times if time >= LEAD_IN), None)


def _stacked(blocks: Sequence[list[Strip]]) -> tuple[list[list[Strip]], float]:
    """The same strips with zero lines below the topmost one's, and the height of all in mm."""
    placed: list[list[Strip]] = []
    at = 0.0
    for number, strips in enumerate(blocks):
        above, below = extent(strips)
        if number:
            at += CAPTION + above
        placed.append([replace(strip, zero=strip.zero + at) for strip in strips])
        at += below
    return placed, at + CAPTION + extent(blocks[0])[0]


def _write_margins(figure: Figure, title: str) -> None:
    width, height = (side * MM_PER_INCH for side in figure.get_size_inches())
    left, top = (BORDER + 1) / width, height - BORDER
    scale = f"{MM_PER_SECOND:g} mm/s   {MM_PER_MV:g} mm/mV   aligned at the first QRS complex (dashed)"
    figure.text(left, (top - 1) / height, title, fontsize=11, fontweight="bold", color=INK, va="top")
    figure.text(left, (BORDER + 1) / height, scale, fontsize=8, color=INK, va="bottom")
