"""Panels of the paper's result figures, each a small picture of its own: pages put them side by side. Take numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.batch import INK, PLAIN
from clocs.drawing.curves import COLORS, LINE_STYLES
from clocs.drawing.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]

WIDTH: Final = 3.7
"""Inches: a phone's screen at 96 pixels an inch."""
SINGLE, SEQUENTIAL = COLORS[0], COLORS[2]
"""Blue and green, as in the paper's figure 3."""


@dataclass(frozen=True)
class Bar:
    """A value with the ends of its interval, NaN where unknown."""

    name: str
    value: float
    low: float
    high: float
    sequential: bool = False
    """One augmentation after another."""


@dataclass(frozen=True)
class Sweep:
    """A value at each of several settings; NaN where there is none."""

    value: Floats
    low: Floats
    high: Floats
    paper: Floats
    """All (settings,)."""
    seeds: tuple[Floats, ...] = ()
    """By setting the seeds that the value is the mean of; none: not drawn."""


def draw_bars(bars: Sequence[Bar], title: str, span: tuple[float, float]) -> Figure:
    """Bars from the top down over AUCs from ``span[0]`` to ``span[1]``; single augmentations blue, sequences green."""
    figure, axes = _panel(0.26 * len(bars) + 0.9)
    for place, bar in enumerate(bars):
        colour = SEQUENTIAL if bar.sequential else SINGLE
        axes.barh(place, bar.value - span[0], left=span[0], height=0.7, color=colour, label=bar.name)
        axes.plot([bar.low, bar.high], [place, place], color=INK, linewidth=1.2, label="_interval")
        axes.text(span[0] + 0.004, place, f"{bar.value:.3f}", va="center", fontsize=7, color="white")
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.invert_yaxis()
    axes.set_xlim(*span)
    axes.set_xlabel("test AUC", fontsize=8)
    _finish(axes, title)
    return figure


def draw_validation_curves(curves: Mapping[str, Sequence[Floats]], title: str) -> Figure:
    """Validation AUC by epoch: for each name, runs of one seed each, (epochs,), of unlike length.

    Bold: the mean, as far as all seeds go, in a band of one standard deviation. Thin: each seed.
    """
    figure, axes = _panel(2.9)
    for place, (name, runs) in enumerate(curves.items()):
        colour = COLORS[place % len(COLORS)]
        for run in runs:
            axes.plot(np.arange(1, len(run) + 1), run, color=colour, linewidth=0.6, alpha=0.6, label="_seed")
        shared = np.stack([run[: min(map(len, runs))] for run in runs])
        epochs, mean = np.arange(1, shared.shape[1] + 1), shared.mean(axis=0)
        axes.plot(
            epochs, mean, color=colour, linewidth=1.8, linestyle=LINE_STYLES[place % len(LINE_STYLES)], label=name
        )
        if len(runs) > 1:
            spread = shared.std(axis=0, ddof=1)
            axes.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("epoch", fontsize=8)
    axes.set_ylabel("validation AUC", fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    _finish(axes, title)
    return figure


def draw_sweep(
    lines: Mapping[str, Sweep], settings: Sequence[str], label: str, title: str, part: str = "test"
) -> Figure:
    """AUC of a part by setting, evenly spaced: ours as lines with intervals, the paper's dashed and hollow.

    Dots: seeds.
    """
    figure, axes = _panel(3.2)
    places = np.arange(len(settings))
    for number, (name, line) in enumerate(lines.items()):
        colour, beside = COLORS[number % len(COLORS)], places + 0.05 * (number - (len(lines) - 1) / 2)
        reach = np.nan_to_num(np.stack([line.value - line.low, line.high - line.value]))
        axes.errorbar(beside, line.value, reach, color=colour, marker="o", markersize=4, elinewidth=0.8, label=name)
        for place, found in zip(beside, line.seeds, strict=False):
            axes.plot(np.full(len(found), place), found, ".", color=colour, markersize=4, alpha=0.5, label="_seeds")
        _draw_papers(axes, beside, line.paper, colour, "_paper")
    if any(np.isfinite(line.paper).any() for line in lines.values()):
        _draw_papers(axes, np.empty(0), np.empty(0), PLAIN, "the paper's")
    axes.set_xticks(places, list(settings))
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylabel(f"{part} AUC", fontsize=8)
    axes.legend(fontsize=6.5, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    _finish(axes, title)
    return figure


def _draw_papers(axes: Axes, places: Floats, values: Floats, colour: str, label: str) -> None:
    axes.plot(
        *(places, values),
        color=colour,
        linestyle="--",
        linewidth=0.8,
        marker="o",
        markersize=4,
        markerfacecolor="white",
        label=label,
    )


def draw_histograms(
    edges: Floats, intra: Floats, inter: Floats, means: tuple[float, float], title: str, reach: float | None = None
) -> Figure:
    """Distances within patients and between them as counts (bins,) between edges (bins + 1,), each of area 1.

    ``reach``: where the axis ends; None: with the last edge.
    """
    figure, axes = _panel(2.6)
    kinds = (("within patients", intra, COLORS[0]), ("between patients", inter, COLORS[1]))
    for (name, counts, colour), mean in zip(kinds, means, strict=True):
        density = counts / (counts.sum() * np.diff(edges))
        axes.stairs(density, edges, fill=True, color=colour, alpha=0.5, label=f"{name}, mean {mean:.3g}")
        axes.axvline(mean, color=colour, linewidth=1.2, linestyle="--", label="_mean")
    axes.set_xlim(edges[0], reach or edges[-1])
    axes.set_ylim(0, 1.3 * axes.dataLim.ymax)  # room for the legend
    axes.set_yticks([])
    axes.set_xlabel("Euclidean distance", fontsize=8)
    axes.legend(fontsize=7, frameon=False, loc="upper right")
    _finish(axes, title)
    axes.spines["left"].set_visible(False)
    return figure


def _panel(height: float) -> tuple[Figure, Axes]:
    figure = new_figure(WIDTH, height)
    return figure, figure.subplots()


def _finish(axes: Axes, title: str) -> None:
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=9, fontweight="bold", loc="left")
