"""Figures of results: ROC curves, reliability diagrams and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import COLORS, GRAY, INK, LINE_STYLES, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]

MAX_COLUMNS: Final = 4
"""Maximum number of reliability diagrams in a row."""
PANEL_WIDTH: Final = 2.4
"""Width of a panel in inches."""


@dataclass(frozen=True)
class LearningCurve:
    """Values of a run by epoch."""

    epoch: npt.NDArray[np.integer]
    """Numbers of the epochs, of shape (epochs,)."""
    training_loss: Floats
    """Training loss, of shape (epochs,)."""
    validation_loss: Floats
    """Validation loss, of shape (epochs,)."""
    effective_rank: Floats
    """Effective rank of the validation embeddings, of shape (epochs,). A rank of 1 is a collapse."""


def draw_roc(curves: Mapping[str, Floats], out: Path | None = None, title: str = "") -> Figure:
    """Draw ROC curves and their mean, with areas under the curves in the legend.

    Args:
        curves: Class -> false and true positive rates from (0, 0) to (1, 1), of shape (2, points). A class without
            points is undefined.
        out: File to write; None for no file.
        title: Title of the figure.

    Returns:
        The figure.
    """
    figure = new_figure(6.0, 4.4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, label="_chance", zorder=1)
    areas = []
    for index, (name, points) in enumerate(curves.items()):
        area = float(np.trapezoid(points[1], points[0])) if points.size else float("nan")
        areas.append(area)
        label = f"{name}  {area:.3f}" if points.size else f"{name}  undefined"
        style = LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)]
        axes.plot(*points, color=COLORS[index % len(COLORS)], linestyle=style, linewidth=1.2, label=label, zorder=2)
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
    """Draw the mean true positive rate of the defined classes at each false positive rate."""
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
    """Draw a reliability diagram for each of K classes, with a histogram of the bins below it.

    Points below the diagonal are probabilities that are too high.

    Args:
        names: Names of the classes, of length K.
        edges: Edges of the bins, of shape (bins + 1,).
        count: Number of rows in each bin, of shape (K, bins).
        mean_probability: Mean probability in each bin, of shape (K, bins); NaN in empty bins.
        observed: Observed frequency of the class in each bin, of shape (K, bins); NaN in empty bins.
        out: File to write; None for no file.
        title: Title of the figure.

    Returns:
        The figure.
    """
    num_rows = -(-len(names) // MAX_COLUMNS)
    num_columns = -(-len(names) // num_rows)
    figure = new_figure(num_columns * PANEL_WIDTH + 0.4, num_rows * (PANEL_WIDTH + 1.1) + 0.4)
    grid = figure.subplots(2 * num_rows, num_columns, squeeze=False, sharex=True, height_ratios=(3, 1) * num_rows)
    max_count = int(np.max(count, initial=1))
    for index in range(num_columns * num_rows):
        row, column = divmod(index, num_columns)
        upper, lower = grid[2 * row, column], grid[2 * row + 1, column]
        if index >= len(names):
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        _draw_diagonal(upper, mean_probability[index], observed[index])
        lower.bar(edges[:-1], count[index], np.diff(edges), align="edge", color=GRAY, edgecolor="white", linewidth=0.5)
        lower.set_yscale("log")
        lower.set_ylim(0.8, 2 * max_count)
        lower.minorticks_off()
        lower.tick_params(axis="x", labelbottom=True)
        lower.set_xlabel("probability", fontsize=7)
        upper.set_title(names[index], fontsize=8.5, fontweight="bold", loc="left")
        if not column:
            upper.set_ylabel("observed frequency", fontsize=7)
            lower.set_ylabel("rows", fontsize=7)
    figure.suptitle(title, fontsize=9)
    _finish(figure, out)
    return figure


def _draw_diagonal(axes: Axes, mean_probability: Floats, observed: Floats) -> None:
    is_filled = ~np.isnan(observed)
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, label="_perfect", zorder=1)
    axes.plot(
        mean_probability[is_filled],
        observed[is_filled],
        color=INK,
        linewidth=1.0,
        marker="o",
        markersize=3.5,
        label="observed",
        zorder=2,
    )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def draw_learning_curves(runs: Mapping[str, LearningCurve], out: Path | None = None, title: str = "") -> Figure:
    """Draw losses and effective rank of runs by epoch, one column per run.

    Each run has its own scale of losses. All runs share the scale of ranks. The epoch with the lowest validation loss,
    which determines the saved encoder, is marked.

    Args:
        runs: Name -> values of a run.
        out: File to write; None for no file.
        title: Title of the figure.

    Returns:
        The figure.
    """
    figure = new_figure(len(runs) * PANEL_WIDTH + 0.4, 4.2)
    grid = figure.subplots(2, len(runs), squeeze=False, sharex="col")
    max_rank = max(float(np.nan_to_num(run.effective_rank).max()) for run in runs.values())
    for column, (name, run) in enumerate(runs.items()):
        upper, lower = grid[:, column]
        upper.plot(run.epoch, run.training_loss, color=COLORS[1], linewidth=1.2, label="training")
        upper.plot(run.epoch, run.validation_loss, color=INK, linewidth=1.2, label="validation")
        lower.plot(run.epoch, run.effective_rank, color=COLORS[2], linewidth=1.2, label="effective rank")
        lower.set_ylim(0, 1.05 * max_rank)
        lower.locator_params(nbins=6, steps=(1, 2, 5, 10), integer=True)
        best = int(np.argmin(np.nan_to_num(run.validation_loss, nan=np.inf)))
        for axes, values in ((upper, run.validation_loss), (lower, run.effective_rank)):
            axes.axvline(run.epoch[best], color=GRAY, linewidth=0.8, zorder=0, label="_best")
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
