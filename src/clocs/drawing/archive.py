"""What an archive is made of, as bars. Takes counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clocs.drawing.batch import INK
from clocs.drawing.curves import COLORS
from clocs.drawing.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST: Final = 12
"""Bars of a panel; what is rarer is drawn together."""
REFUSED: Final = COLORS[5]


def draw_archive(panels: Mapping[str, Mapping[str, int]], out: Path | None = None, title: str = "") -> Figure:
    """For each property, by name, a panel with a bar for each of its values; those of ``faults`` stand out."""
    shown = {name: _shortened(counts) for name, counts in panels.items()}
    rows = [
        max((len(counts) for counts in list(shown.values())[at : at + 2]), default=1) for at in range(0, len(shown), 2)
    ]
    heights = [max(count, 1) + 1.6 for count in rows]
    figure = new_figure(8.4, 0.22 * sum(heights) + 0.4)
    grid = figure.subplots(len(heights), 2, squeeze=False, height_ratios=heights)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, (name, counts) in zip(grid.flat, shown.items(), strict=False):
        _draw_panel(axes, name, counts)
    figure.suptitle(title, fontsize=10)
    if out is not None:
        save_figure(figure, out)
    return figure


def _draw_panel(axes: Axes, name: str, counts: Mapping[str, int]) -> None:
    axes.set_title(f"{name}: {sum(counts.values()):,}", fontsize=8.5, fontweight="bold", loc="left")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    if not counts:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.text(0, 0.5, "none", transform=axes.transAxes, fontsize=8, color=INK)
        return
    axes.barh(range(len(counts)), list(counts.values()), height=0.7, color=REFUSED if name == "faults" else COLORS[0])
    longest = max(counts.values())
    for place, count in enumerate(counts.values()):
        axes.text(count + 0.01 * longest, place, f"{count:,}", va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(counts)), list(counts), fontsize=7.5)
    axes.set_xlim(0, 1.15 * longest)
    axes.invert_yaxis()


def _shortened(counts: Mapping[str, int]) -> dict[str, int]:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if len(ordered) <= MOST:
        return dict(ordered)
    rest = ordered[MOST - 1 :]
    return dict(ordered[: MOST - 1]) | {f"{len(rest)} others": sum(count for _, count in rest)}
