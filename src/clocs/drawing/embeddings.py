"""Figures of embeddings: maps of patients, and distances within and between patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import COLORS, GRAY, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]
Facts = npt.NDArray[np.str_] | Floats

PANEL_SIZE: Final = 3.6
"""Height of a panel and its width without the legend, in inches."""
MARKERS: Final = ("o", "^", "s", "D")
"""Markers, which change when all colors are used."""
UNINFORMATIVE: Final = ("none", "several", "unknown")
"""Values without information, which are drawn in gray below the others."""
MAX_LARGE_POINTS: Final = 2_000
"""Maximum number of points that are drawn large."""
BINS: Final = 60
"""Number of bins of a histogram."""
SHOWN_FRACTION: Final = 0.998
"""Fraction of the distances within the limits of a histogram."""
MAX_COLUMNS: Final = 2
"""Maximum number of panels in a row."""


def draw_map(
    points: Floats,
    facts: Mapping[str, Facts],
    out: Path | None = None,
    *,
    axes_names: tuple[str, str] = ("", ""),
    title: str = "",
) -> Figure:
    """Draw a map of patients, with a panel for each property.

    Text values have one color each, numbers a color scale. NaN is gray. Properties with only one value are left out.

    Args:
        points: Position of each patient, of shape (P, 2).
        facts: Property -> value for each patient, of shape (P,).
        out: File to write; None for no file.
        axes_names: Names of the axes.
        title: Title of the figure.

    Returns:
        The figure.
    """
    varying = {name: values for name, values in facts.items() if _has_several_values(values)}
    num_columns = min(MAX_COLUMNS, len(varying) or 1)
    num_rows = -(-len(varying) // num_columns) or 1
    figure = new_figure(num_columns * (PANEL_SIZE + 1.3), num_rows * PANEL_SIZE + 0.3)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (name, values) in zip(grid.flat, (varying or {"": np.full(len(points), "")}).items(), strict=False):
        axes.set_axis_on()
        if values.dtype.kind == "f":
            _draw_numbers(figure, axes, points, np.asarray(values, np.float64), name)
        else:
            _draw_categories(axes, points, values.astype(str), {str(value): str(value) for value in np.unique(values)})
        _finish(axes, name, axes_names)
    figure.suptitle(title, fontsize=9)
    if out is not None:
        save_figure(figure, out)
    return figure


def draw_groups(
    points: Floats,
    groups: npt.NDArray[np.integer],
    names: Mapping[int, str],
    out: Path | None = None,
    *,
    axes_names: tuple[str, str] = ("", ""),
    title: str = "",
) -> Figure:
    """Draw a map of patients in the colors of their groups.

    Args:
        points: Position of each patient, of shape (P, 2).
        groups: Group of each patient, of shape (P,). Patients without a group have -1 and are gray.
        names: Group -> name in the legend.
        out: File to write; None for no file.
        axes_names: Names of the axes.
        title: Title of the figure.

    Returns:
        The figure.
    """
    figure = new_figure(PANEL_SIZE * 2 + 1.6, PANEL_SIZE * 1.3)
    axes = figure.subplots()
    categories = np.where(groups < 0, UNINFORMATIVE[0], groups.astype(str))
    order = [str(number) for number in names if number >= 0]
    labels = {str(number) if number >= 0 else UNINFORMATIVE[0]: name for number, name in names.items()}
    _draw_categories(axes, points, categories, labels, order)
    _finish(axes, "", axes_names)
    figure.suptitle(title, fontsize=9)
    if out is not None:
        save_figure(figure, out)
    return figure


def _has_several_values(values: Facts) -> bool:
    defined = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return len(np.unique(defined)) > 1


def _draw_numbers(figure: Figure, axes: Axes, points: Floats, values: Floats, name: str) -> None:
    unknown = np.isnan(values)
    axes.scatter(points[unknown, 0], points[unknown, 1], s=_point_size(points), color=GRAY, linewidths=0)
    x, y = points[~unknown].T
    scatter = axes.scatter(x, y, c=values[~unknown], s=_point_size(points), cmap="viridis", linewidths=0)
    bar = figure.colorbar(scatter, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(name, fontsize=7)
    bar.ax.tick_params(labelsize=6)


def _draw_categories(
    axes: Axes, points: Floats, categories: npt.NDArray[np.str_], labels: Mapping[str, str], order: Sequence[str] = ()
) -> None:
    """Draw each category in a color, rare ones above frequent ones. ``order`` is that of the legend and the colors."""
    unique, counts = np.unique(categories, return_counts=True)
    by_size = unique[np.argsort(-counts, kind="stable")].tolist()
    colored = list(order) or [name for name in by_size if name not in UNINFORMATIVE]
    for name in (*(name for name in by_size if name in UNINFORMATIVE), *colored):
        index = colored.index(name) if name in colored else -1
        color = GRAY if index < 0 else COLORS[index % len(COLORS)]
        marker = MARKERS[max(index, 0) // len(COLORS) % len(MARKERS)]
        x, y = points[categories == name].T
        axes.scatter(x, y, s=_point_size(points), color=color, marker=marker, linewidths=0, label=labels[name])
    handles, names = axes.get_legend_handles_labels()
    num_gray = len(handles) - len(colored)  # drawn first, but last in the legend
    axes.legend(
        handles[num_gray:] + handles[:num_gray],
        names[num_gray:] + names[:num_gray],
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=6.5,
        frameon=False,
        markerscale=2,
        handletextpad=0.2,
    )


def _point_size(points: Floats) -> float:
    return 7.0 if len(points) <= MAX_LARGE_POINTS else 3.5


def _finish(axes: Axes, name: str, axes_names: tuple[str, str]) -> None:
    axes.set_title(name, fontsize=8.5, fontweight="bold", loc="left")
    axes.set_xlabel(axes_names[0], fontsize=7)
    axes.set_ylabel(axes_names[1], fontsize=7)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(False)


def draw_distances(panels: Mapping[str, tuple[Floats, Floats]], out: Path | None = None, title: str = "") -> Figure:
    """Draw histograms of distances within and between patients for each encoder.

    Each histogram has an area of 1 and a line at its mean. Encoders have separate scales, which show
    ``SHOWN_FRACTION`` of the distances.

    Args:
        panels: Encoder -> intra-patient distances of shape (n,) and inter-patient distances of shape (m,).
        out: File to write; None for no file.
        title: Title of the figure.

    Returns:
        The figure.
    """
    num_columns = min(MAX_COLUMNS, len(panels))
    num_rows = -(-len(panels) // num_columns)
    figure = new_figure(num_columns * 3.4 + 0.2, num_rows * 2.3 + 0.3)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index >= len(panels):
            axes.set_axis_off()
    for axes, (name, (intra, inter)) in zip(grid.flat, panels.items(), strict=False):
        _draw_histograms(axes, intra, inter)
        axes.set_title(name, fontsize=8.5, fontweight="bold", loc="left")
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("density", fontsize=7)
    figure.suptitle(title, fontsize=9)
    if out is not None:
        save_figure(figure, out)
    return figure


def _draw_histograms(axes: Axes, intra: Floats, inter: Floats) -> None:
    limit = max(float(np.quantile(distances, SHOWN_FRACTION)) for distances in (intra, inter))
    edges = np.linspace(0, limit or 1.0, BINS + 1)
    highest = 0.0
    for name, distances, color in (("intra-patient", intra, COLORS[0]), ("inter-patient", inter, COLORS[1])):
        mean = float(distances.mean())
        density = np.histogram(distances, edges)[0] / len(distances) / (edges[1] - edges[0])
        label = f"{name}, mean {mean:.3g}"
        axes.stairs(density, edges, fill=True, color=color, alpha=0.55, label=label)
        highest = max(highest, float(density.max()))
        axes.axvline(mean, 0, 0.8, color=color, linewidth=1.2, linestyle="--", label="_mean")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, 1.3 * highest)  # room for the legend
    axes.set_xlabel("Euclidean distance", fontsize=7)
    axes.legend(fontsize=6.5, frameon=False, loc="upper right", ncols=2)
