"""What a batch looks like: its views over what they were made from, and how alike its instances are.

After the paper's figures 1 and 2 and its appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

Floats = npt.NDArray[np.float32]

OTHER, SAME_INSTANCE, SAME_PATIENT = 0, 1, 2
"""Kinds of cells of a similarity matrix."""
KINDS: Final = {
    SAME_INSTANCE: ("same instance", ("#c9ecc0", "#4fb55f", "#00441b")),
    SAME_PATIENT: ("same patient", ("#fff3a0", "#ffc400", "#a86500")),
    OTHER: ("other patients", ("#f4f8fc", "#8fbfdf", "#08306b")),
}
"""What the legend calls a kind, and its colours from the least to the most similar."""

INK, PLAIN = "#14324f", "#b9b9b9"
PANEL_HEIGHT: Final = 1.25
"""Inches."""
MATRIX: Final = 5.2
"""Inches, width and height of the similarity matrix with its legend."""
BESIDE: Final = 3
"""Views up to which the matrix stands beside them; with more, below."""
ACROSS: Final = 3
"""Panels side by side in the picture of augmentations."""


@dataclass(frozen=True)
class Views:
    """Views of a few instances, before normalisation."""

    values: Floats
    """(B, V, S) in ``unit``."""
    plain: Floats | None
    """(B, V, S), what each view was before it was augmented; None where nothing is."""
    rates: npt.NDArray[np.float64]
    """(B,) Hz."""
    offsets: npt.NDArray[np.int64]
    """(V,) samples from the frame's start to the view's."""
    names: tuple[str, ...]
    """(V,)"""
    instances: tuple[str, ...]
    """(B,)"""
    unit: str = "mV"


@dataclass(frozen=True)
class Similarity:
    """How alike instances are between two views."""

    values: npt.NDArray[np.float64]
    """(B, B) cosine: row i is instance i in the first view, column j instance j in the second."""
    patients: npt.NDArray[np.int64]
    """(B,)"""
    names: tuple[str, str]
    """Of the two views."""
    title: str = ""


def kinds(patients: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """(B, B): the diagonal is SAME_INSTANCE, the patient's other instances SAME_PATIENT, the rest OTHER."""
    found = np.where(patients[:, None] == patients, SAME_PATIENT, OTHER).astype(np.int8)
    np.fill_diagonal(found, SAME_INSTANCE)
    return found


def draw_batch(views: Views, similarity: Similarity, title: str = "") -> Figure:
    """One row an instance and one column a view, with what it was before in grey; and the similarity matrix."""
    count, width = views.values.shape[:2]
    size = width * _panel_width(width) + 0.4, max(count * PANEL_HEIGHT + 0.7, 2.5)
    if width <= BESIDE:
        figure = new_figure(size[0] + MATRIX, max(size[1], MATRIX) + 0.3)
        grid = figure.add_gridspec(1, 2, width_ratios=(size[0], MATRIX))
        places = grid[0, 0], grid[0, 1]
    else:
        figure = new_figure(size[0], size[1] + MATRIX + 0.3)
        margin = (size[0] - MATRIX) / 2
        grid = figure.add_gridspec(2, 3, height_ratios=(size[1], MATRIX), width_ratios=(margin, MATRIX, margin))
        places = grid[0, :], grid[1, 1]
    upper, lower = (figure.add_subfigure(place) for place in places)
    upper.suptitle(title, fontsize=10)
    draw_views(upper, views)
    draw_similarity(lower, similarity)
    return figure


def draw_views(canvas: FigureBase, views: Views) -> None:
    """Fill a figure, or a part of one, with a grid of traces; amplitudes compare along a row."""
    count, width = views.values.shape[:2]
    grid = canvas.subplots(count, width, sharey="row", squeeze=False)
    above = 3 if views.plain is None else 11  # points; room for the note on what was changed
    for (row, column), axes in np.ndenumerate(grid):
        _draw_view(axes, views, row, column)
        if not column:
            axes.set_ylabel(views.unit, fontsize=7)
            axes.set_title(views.instances[row], fontsize=7, loc="left", pad=above)
        if not row:
            axes.annotate(
                views.names[column],
                (0.5, 1.0),
                xytext=(0, above + 13),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=8.5,
                fontweight="bold",
            )
        if row == count - 1:
            axes.set_xlabel("s", fontsize=7)


def draw_similarity(canvas: FigureBase, similarity: Similarity) -> None:
    """Fill a figure, or a part of one, with the matrix: each kind of cell in colours of its own, on one scale."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    values, found = similarity.values, kinds(similarity.patients)
    low, high = float(values.min()), float(values.max())
    grid = canvas.add_gridspec(2, len(KINDS), height_ratios=(1, 0.03))
    axes = canvas.add_subplot(grid[0, :])
    for number, (kind, (name, colours)) in enumerate(KINDS.items()):
        cells = np.ma.masked_where(found != kind, values)
        colour_map = LinearSegmentedColormap.from_list(name, colours)
        image = axes.imshow(cells, cmap=colour_map, vmin=low, vmax=max(high, low + 1e-9), label=name)
        bar = canvas.colorbar(image, cax=canvas.add_subplot(grid[1, number]), orientation="horizontal")
        bar.set_label(f"{name}\n" + (f"mean {cells.mean():.3f}" if cells.count() else "none here"), fontsize=7)
        bar.ax.tick_params(labelsize=6)
        bar.locator = MaxNLocator(4)
    axes.set_xticks(np.arange(len(values) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(values) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    axes.tick_params(labelsize=6)
    first, second = similarity.names
    axes.set_ylabel(f"instance: {first}", fontsize=8)
    axes.set_xlabel(f"instance: {second}", fontsize=8)
    axes.set_title(similarity.title, fontsize=8.5)


def draw_augmentations(views: Views, title: str = "") -> Figure:
    """The views of the first instance, a few side by side; each says how far it is from what it was."""
    width = views.values.shape[1]
    rows = -(-width // ACROSS)
    figure = new_figure(ACROSS * 3.6, rows * (PANEL_HEIGHT + 0.45) + 0.4)
    grid = figure.subplots(rows, ACROSS, sharex=True, sharey=True, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= width:
            axes.set_axis_off()
            continue
        _draw_view(axes, views, 0, place)
        axes.set_title(views.names[place], fontsize=8.5, fontweight="bold", loc="left")
        axes.set_ylabel("" if place % ACROSS else views.unit, fontsize=7)
        axes.set_xlabel("s" if place + ACROSS >= width else "", fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure


def _draw_view(axes: Axes, views: Views, row: int, column: int) -> None:
    values = views.values[row, column]
    seconds = (views.offsets[column] + np.arange(len(values))) / views.rates[row]
    note = ""
    if views.plain is not None:
        plain = views.plain[row, column]
        away = float(np.sqrt(np.mean((values.astype(np.float64) - plain) ** 2)))
        note = f"changed by {away:.2g} {views.unit} rms" if away else "as it was"
        if away:
            axes.plot(seconds, plain, color=PLAIN, linewidth=1.8, label="_before", zorder=1)
    axes.plot(seconds, values, color=INK, linewidth=0.6, label="view", zorder=2)
    axes.text(1.0, 1.01, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=6, color="#555555")
    axes.set_xlim(seconds[0], seconds[-1] + 1 / views.rates[row])
    axes.tick_params(labelsize=6)
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines[["top", "right"]].set_visible(False)


def _panel_width(views: int) -> float:
    """Inches: many views are narrower."""
    return 3.0 if views <= BESIDE else 2.2
