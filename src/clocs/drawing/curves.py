"""Results as curves: ROC, reliability, and how runs learned. Takes arrays, whoever measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.batch import INK, PLAIN
from clocs.drawing.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]

COLORS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Of Okabe and Ito: told apart by the colour-blind."""
LINE_STYLES: Final = ("-", "--", ":")
"""When the colours are used up."""
ACROSS: Final = 4
"""Reliability diagrams side by side, at most."""
PANEL: Final = 2.4
"""Inches, width of a small panel."""


@dataclass(frozen=True)
class LearningCurve:
    """What a run logged, an epoch each."""

    epoch: npt.NDArray[np.integer]
    """(epochs,)"""
    training_loss: Floats
    """(epochs,)"""
    validation_loss: Floats
    """(epochs,)"""
    effective_rank: Floats
    """(epochs,) of the validation embeddings; 1 is a collapse."""


def draw_roc(curves: Mapping[str, Floats], out: Path | None = None, title: str = "") -> Figure:
    """The ROC curve of each class, by name, as (2, points): false and true positive rates from (0, 0) to (1, 1).

    The legend has the areas under the curves and their mean; a class without points is said to be undefined.
    """
    figure = new_figure(6.0, 4.4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=PLAIN, linewidth=0.8, label="_chance", zorder=1)
    areas = []
    for place, (name, points) in enumerate(curves.items()):
        area = float(np.trapezoid(points[1], points[0])) if points.size else float("nan")
        areas.append(area)
        label = f"{name}  {area:.3f}" if points.size else f"{name}  undefined"
        style = LINE_STYLES[place // len(COLORS) % len(LINE_STYLES)]
        axes.plot(*points, color=COLORS[place % len(COLORS)], linestyle=style, linewidth=1.2, label=label, zorder=2)
    _draw_mean_roc(axes, [points for points in curves.values() if points.size], areas)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set_xlabel("false positive rate", fontsize=8)
    axes.set_ylabel("true positive rate", fontsize=8)
    axes.set_title(title, fontsize=9)
    legend = axes.legend(
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=7,
        frameon=False,
        title="area under the curve",
        alignment="left",
    )
    legend.get_title().set_fontsize(7.5)
    _finish(figure, out)
    return figure


def _draw_mean_roc(axes: Axes, curves: list[Floats], areas: list[float]) -> None:
    """The mean true positive rate at each false positive rate, over the classes that are defined."""
    if not curves:
        return
    grid = np.linspace(0, 1, 501)
    mean = np.mean([np.interp(grid, points[0], points[1]) for points in curves], axis=0)
    axes.plot([0, *grid], [0, *mean], color=INK, linewidth=2.2, label=f"macro  {np.nanmean(areas):.3f}", zorder=3)


def draw_reliability(
    names: Sequence[str],
    edges: Floats,
    count: npt.NDArray[np.integer],
    mean_probability: Floats,
    observed: Floats,
    out: Path | None = None,
    title: str = "",
) -> Figure:
    """A reliability diagram for each of K classes, with the number of rows in each bin below it.

    ``edges`` is (bins + 1,), the others (K, bins) with NaN where a bin is empty. On the diagonal, a
    probability means what it says; below it, the class came true less often.
    """
    down = -(-len(names) // ACROSS)
    across = -(-len(names) // down)
    figure = new_figure(across * PANEL + 0.4, down * (PANEL + 1.1) + 0.4)
    grid = figure.subplots(2 * down, across, squeeze=False, sharex=True, height_ratios=(3, 1) * down)
    most = int(np.max(count, initial=1))
    for place in range(across * down):
        row, column = divmod(place, across)
        upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
        if place >= len(names):
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        _draw_diagonal(upper, mean_probability[place], observed[place])
        lower.bar(edges[:-1], count[place], np.diff(edges), align="edge", color=PLAIN, edgecolor="white", linewidth=0.5)
        lower.set_yscale("log")
        lower.set_ylim(0.8, 2 * most)
        lower.minorticks_off()
        lower.tick_params(axis="x", labelbottom=True)
        lower.set_xlabel("probability", fontsize=7)
        upper.set_title(names[place], fontsize=8.5, fontweight="bold", loc="left")
        if not column:
            upper.set_ylabel("observed frequency", fontsize=7)
            lower.set_ylabel("rows", fontsize=7)
    figure.suptitle(title, fontsize=9)
    _finish(figure, out)
    return figure


def _draw_diagonal(axes: Axes, mean_probability: Floats, observed: Floats) -> None:
    known = ~np.isnan(observed)
    axes.plot([0, 1], [0, 1], color=PLAIN, linewidth=0.8, label="_perfect", zorder=1)
    axes.plot(
        mean_probability[known],
        observed[known],
        color=INK,
        linewidth=1.0,
        marker="o",
        markersize=3.5,
        label="observed",
        zorder=2,
    )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def draw_learning_curves(runs: Mapping[str, LearningCurve], out: Path | None = None, title: str = "") -> Figure:
    """A column a run: losses above, each run on its own scale; effective rank below, all on one scale.

    The epoch of the lowest validation loss, whose encoder is kept, is marked in both.
    """
    figure = new_figure(len(runs) * PANEL + 0.4, 4.2)
    grid = figure.subplots(2, len(runs), squeeze=False, sharex="col")
    top = max(float(np.nan_to_num(run.effective_rank).max()) for run in runs.values())
    for column, (name, run) in enumerate(runs.items()):
        upper, lower = grid[:, column]
        upper.plot(run.epoch, run.training_loss, color=COLORS[1], linewidth=1.2, label="training")
        upper.plot(run.epoch, run.validation_loss, color=INK, linewidth=1.2, label="validation")
        lower.plot(run.epoch, run.effective_rank, color=COLORS[2], linewidth=1.2, label="effective rank")
        lower.set_ylim(0, 1.05 * top)
        lower.locator_params(nbins=6, steps=(1, 2, 5, 10), integer=True)
        best = int(np.argmin(np.nan_to_num(run.validation_loss, nan=np.inf)))
        for axes, values in ((upper, run.validation_loss), (lower, run.effective_rank)):
            axes.axvline(run.epoch[best], color=PLAIN, linewidth=0.8, zorder=0, label="_best")
            axes.plot(run.epoch[best], values[best], "o", color=INK, markersize=4, label="_best")
        upper.set_title(name, fontsize=8.5, fontweight="bold", loc="left")
        lower.set_xlabel("epoch", fontsize=7)
    grid[0, 0].set_ylabel("loss", fontsize=7)
    grid[1, 0].set_ylabel("effective rank", fontsize=7)
    grid[0, 0].legend(fontsize=6, frameon=False)
    figure.suptitle(title, fontsize=9)
    _finish(figure, out)
    return figure


def _finish(figure: Figure, out: Path | None) -> None:
    for axes in figure.axes:
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    if out is not None:
        save_figure(figure, out)
