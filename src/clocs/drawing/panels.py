"""Small panels of results, as in the figures of the paper. Pages show them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import COLORS, LINE_STYLES, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]

PANEL_WIDTH: Final = 3.7
"""Width of a panel in inches, for the screen of a phone at 96 pixels per inch."""


@dataclass(frozen=True)
class Sweep:
    """Values at several settings; NaN for missing ones."""

    value: Floats
    """Mean values, of shape (settings,)."""
    low: Floats
    """Lower ends of the intervals, of shape (settings,)."""
    high: Floats
    """Upper ends of the intervals, of shape (settings,)."""
    seeds: tuple[Floats, ...] = ()
    """Values of the seeds at each setting; empty to draw no seeds."""


def draw_validation_curves(curves: Mapping[str, Sequence[Floats]], title: str) -> Figure:
    """Draw validation AUCs by epoch.

    Thin lines are seeds. The bold line is their mean over the epochs that all seeds have, with a band of one standard
    deviation.

    Args:
        curves: Name -> AUC of each seed, of shape (epochs,). Seeds may have different numbers of epochs.
        title: Title of the panel.

    Returns:
        The figure.
    """
    figure, axes = _new_panel(2.9)
    for index, (name, runs) in enumerate(curves.items()):
        color = COLORS[index % len(COLORS)]
        for run in runs:
            axes.plot(np.arange(1, len(run) + 1), run, color=color, linewidth=0.6, alpha=0.6, label="_seed")
        shared = np.stack([run[: min(map(len, runs))] for run in runs])
        epochs, mean = np.arange(1, shared.shape[1] + 1), shared.mean(axis=0)
        axes.plot(epochs, mean, color=color, linewidth=1.8, linestyle=LINE_STYLES[index % len(LINE_STYLES)], label=name)
        if len(runs) > 1:
            spread = shared.std(axis=0, ddof=1)
            axes.fill_between(epochs, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
    axes.set_xlabel("epoch", fontsize=8)
    axes.set_ylabel("validation AUC", fontsize=8)
    axes.legend(fontsize=7, frameon=False)
    _finish(axes, title)
    return figure


def draw_sweep(
    lines: Mapping[str, Sweep],
    settings: Sequence[str],
    label: str,
    title: str,
    part: str = "test",
    names: Sequence[str] = (),
) -> Figure:
    """Draw AUCs by setting as lines with intervals, with dots for seeds.

    Args:
        lines: Name -> values at each setting.
        settings: Names of the settings, evenly spaced on the axis.
        label: Label of the axis of settings.
        title: Title of the panel.
        part: Part of the split for the label of the AUC axis.
        names: Names of the lines of several figures. A name has the same color and style in each of them.

    Returns:
        The figure.
    """
    figure, axes = _new_panel(3.2)
    positions, known = np.arange(len(settings)), list(names or lines)
    for index, (name, line) in enumerate(lines.items()):
        repeat, number = divmod(known.index(name), len(COLORS))
        color, style = COLORS[number], LINE_STYLES[repeat % len(LINE_STYLES)]
        shifted = positions + 0.05 * (index - (len(lines) - 1) / 2)
        errors = np.nan_to_num(np.stack([line.value - line.low, line.high - line.value]))
        axes.errorbar(
            shifted, line.value, errors, color=color, ls=style, marker="o", markersize=4, elinewidth=0.8, label=name
        )
        for position, seeds in zip(shifted, line.seeds, strict=False):
            axes.plot(np.full(len(seeds), position), seeds, ".", color=color, markersize=4, alpha=0.5, label="_seeds")
    axes.set_xticks(positions, list(settings))
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylabel(f"{part} AUC", fontsize=8)
    axes.legend(fontsize=6.5, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    _finish(axes, title)
    return figure


def draw_histograms(
    edges: Floats,
    intra: Floats,
    inter: Floats,
    means: tuple[float, float],
    title: str,
    max_distance: float | None = None,
) -> Figure:
    """Draw histograms of distances within and between patients, each with an area of 1.

    Args:
        edges: Edges of the bins, of shape (bins + 1,).
        intra: Number of distances within patients in each bin, of shape (bins,).
        inter: Number of distances between patients in each bin, of shape (bins,).
        means: Mean distances within and between patients.
        title: Title of the panel.
        max_distance: End of the distance axis; None for the last edge.

    Returns:
        The figure.
    """
    figure, axes = _new_panel(2.6)
    kinds = (("within patients", intra, COLORS[0]), ("between patients", inter, COLORS[1]))
    for (name, counts, color), mean in zip(kinds, means, strict=True):
        density = counts / (counts.sum() * np.diff(edges))
        axes.stairs(density, edges, fill=True, color=color, alpha=0.5, label=f"{name}, mean {mean:.3g}")
        axes.axvline(mean, color=color, linewidth=1.2, linestyle="--", label="_mean")
    axes.set_xlim(edges[0], max_distance or edges[-1])
    axes.set_ylim(0, 1.3 * axes.dataLim.ymax)  # room for the legend
    axes.set_yticks([])
    axes.set_xlabel("Euclidean distance", fontsize=8)
    axes.legend(fontsize=7, frameon=False, loc="upper right")
    _finish(axes, title)
    axes.spines["left"].set_visible(False)
    return figure


def _new_panel(height: float) -> tuple[Figure, Axes]:
    figure = new_figure(PANEL_WIDTH, height)
    return figure, figure.subplots()


def _finish(axes: Axes, title: str) -> None:
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=9, fontweight="bold", loc="left")
