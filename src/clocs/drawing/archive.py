"""Bar charts of the composition of an archive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clocs.drawing.figure import COLORS, INK, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BARS: Final = 12
"""Maximum number of bars of a panel. The rarest values share one bar."""
FAULT_COLOR: Final = COLORS[5]


def draw_archive(panels: Mapping[str, Mapping[str, int]], out: Path | None = None, title: str = "") -> Figure:
    """Draw a panel for each property, with a bar for each of its values.

    Args:
        panels: Property -> value -> number of recordings. The property ``faults`` has another color.
        out: File to write; None for no file.
        title: Title of the figure.

    Returns:
        The figure.
    """
    shortened = {name: _merge_rare(counts) for name, counts in panels.items()}
    num_bars = [len(counts) for counts in shortened.values()]
    heights = [max(*num_bars[first : first + 2], 1) + 1.6 for first in range(0, len(num_bars), 2)]
    figure = new_figure(8.4, 0.22 * sum(heights) + 0.4)
    grid = figure.subplots(len(heights), 2, squeeze=False, height_ratios=heights)
    for axes in grid.flat[len(shortened) :]:
        axes.set_axis_off()
    for axes, (name, counts) in zip(grid.flat, shortened.items(), strict=False):
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
    color = FAULT_COLOR if name == "faults" else COLORS[0]
    axes.barh(range(len(counts)), list(counts.values()), height=0.7, color=color)
    longest = max(counts.values())
    for position, count in enumerate(counts.values()):
        axes.text(count + 0.01 * longest, position, f"{count:,}", va="center", fontsize=7, color=INK)
    axes.set_yticks(range(len(counts)), list(counts), fontsize=7.5)
    axes.set_xlim(0, 1.15 * longest)
    axes.invert_yaxis()


def _merge_rare(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort counts in descending order and merge the rarest values into one."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if len(ordered) <= MAX_BARS:
        return dict(ordered)
    rest = ordered[MAX_BARS - 1 :]
    return dict(ordered[: MAX_BARS - 1]) | {f"{len(rest)} others": sum(count for _, count in rest)}
