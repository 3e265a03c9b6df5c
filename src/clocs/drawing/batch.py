"""Figures of a batch: its views over the original signals, and the similarity of its instances.

They follow figures 1 and 2 and appendix B of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.figure import GRAY, INK, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

Floats = npt.NDArray[np.float32]

OTHER, SAME_INSTANCE, SAME_PATIENT = 0, 1, 2
"""Kinds of pairs of instances in a similarity matrix."""
PAIR_KINDS: Final = {
    SAME_INSTANCE: ("same instance", ("#c9ecc0", "#4fb55f", "#00441b")),
    SAME_PATIENT: ("same patient", ("#fff3a0", "#ffc400", "#a86500")),
    OTHER: ("other patients", ("#f4f8fc", "#8fbfdf", "#08306b")),
}
"""Kind -> name in the legend, and colors from the least to the most similar."""

PANEL_HEIGHT: Final = 1.25
"""Height of a panel in inches."""
MATRIX_SIZE: Final = 5.2
"""Width and height in inches of the similarity matrix with its legend."""
MAX_VIEWS_BESIDE: Final = 3
"""Maximum number of views with the matrix beside them. With more views, the matrix is below."""
NUM_COLUMNS: Final = 3
"""Number of columns in the figure of augmentations."""


@dataclass(frozen=True)
class Views:
    """Views of B instances before normalization."""

    values: Floats
    """Signals in ``unit``, of shape (B, V, S)."""
    original: Floats | None
    """Signals before augmentation, of shape (B, V, S); None without augmentation."""
    sampling_rates: npt.NDArray[np.float64]
    """Sampling rate of each instance in Hz, of shape (B,)."""
    offsets: npt.NDArray[np.int64]
    """Samples from the start of the frame to the start of each view, of shape (V,)."""
    names: tuple[str, ...]
    """Name of each view, of length V."""
    instances: tuple[str, ...]
    """Name of each instance, of length B."""
    unit: str = "mV"
    """Unit of the signals."""


@dataclass(frozen=True)
class Similarity:
    """Similarity of B instances between two views."""

    values: npt.NDArray[np.float64]
    """Cosine similarity of instance i in the first view and instance j in the second view, of shape (B, B)."""
    patients: npt.NDArray[np.int64]
    """Patient of each instance, of shape (B,)."""
    names: tuple[str, str]
    """Names of the two views."""
    title: str = ""
    """Title of the matrix."""


def pair_kinds(patients: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """Return the kind of each pair of instances.

    Args:
        patients: Patient of each instance, of shape (B,).

    Returns:
        ``SAME_INSTANCE``, ``SAME_PATIENT`` or ``OTHER`` for each pair, of shape (B, B).
    """
    kinds = np.where(patients[:, None] == patients, SAME_PATIENT, OTHER).astype(np.int8)
    np.fill_diagonal(kinds, SAME_INSTANCE)
    return kinds


def draw_batch(views: Views, similarity: Similarity, title: str = "") -> Figure:
    """Draw the views of a batch beside its similarity matrix.

    Each row is an instance, each column a view. The original signals are gray.

    Args:
        views: The views.
        similarity: The similarity matrix.
        title: Title of the figure.

    Returns:
        The figure.
    """
    num_instances, num_views = views.values.shape[:2]
    size = num_views * _panel_width(num_views) + 0.4, max(num_instances * PANEL_HEIGHT + 0.7, 2.5)
    if num_views <= MAX_VIEWS_BESIDE:
        figure = new_figure(size[0] + MATRIX_SIZE, max(size[1], MATRIX_SIZE) + 0.3)
        grid = figure.add_gridspec(1, 2, width_ratios=(size[0], MATRIX_SIZE))
        cells = grid[0, 0], grid[0, 1]
    else:
        figure = new_figure(size[0], size[1] + MATRIX_SIZE + 0.3)
        margin = (size[0] - MATRIX_SIZE) / 2
        widths = margin, MATRIX_SIZE, margin
        grid = figure.add_gridspec(2, 3, height_ratios=(size[1], MATRIX_SIZE), width_ratios=widths)
        cells = grid[0, :], grid[1, 1]
    first, second = (figure.add_subfigure(cell) for cell in cells)
    first.suptitle(title, fontsize=10)
    draw_views(first, views)
    draw_similarity(second, similarity)
    return figure


def draw_views(canvas: FigureBase, views: Views) -> None:
    """Fill a figure or subfigure with a grid of views. The views of an instance have the same scale."""
    num_instances, num_views = views.values.shape[:2]
    grid = canvas.subplots(num_instances, num_views, sharey="row", squeeze=False)
    padding = 3 if views.original is None else 11  # points, for the note on the change
    for (row, column), axes in np.ndenumerate(grid):
        _draw_view(axes, views, row, column)
        if not column:
            axes.set_ylabel(views.unit, fontsize=7)
            axes.set_title(views.instances[row], fontsize=7, loc="left", pad=padding)
        if not row:
            axes.annotate(
                views.names[column],
                (0.5, 1.0),
                xytext=(0, padding + 13),
                xycoords="axes fraction",
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=8.5,
                fontweight="bold",
            )
        if row == num_instances - 1:
            axes.set_xlabel("s", fontsize=7)


def draw_similarity(canvas: FigureBase, similarity: Similarity) -> None:
    """Fill a figure or subfigure with the similarity matrix. Each kind of pair has its own colors, on one scale."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    values, kinds = similarity.values, pair_kinds(similarity.patients)
    low, high = float(values.min()), float(values.max())
    grid = canvas.add_gridspec(2, len(PAIR_KINDS), height_ratios=(1, 0.03))
    axes = canvas.add_subplot(grid[0, :])
    for column, (kind, (name, colors)) in enumerate(PAIR_KINDS.items()):
        cells = np.ma.masked_where(kinds != kind, values)
        color_map = LinearSegmentedColormap.from_list(name, colors)
        image = axes.imshow(cells, cmap=color_map, vmin=low, vmax=max(high, low + 1e-9), label=name)
        bar = canvas.colorbar(image, cax=canvas.add_subplot(grid[1, column]), orientation="horizontal")
        bar.set_label(f"{name}\n" + (f"mean {cells.mean():.3f}" if cells.count() else "none in this batch"), fontsize=7)
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
    """Draw the views of the first instance, each with its distance from the original signal.

    Args:
        views: The views.
        title: Title of the figure.

    Returns:
        The figure.
    """
    num_views = views.values.shape[1]
    rows = -(-num_views // NUM_COLUMNS)
    figure = new_figure(NUM_COLUMNS * 3.6, rows * (PANEL_HEIGHT + 0.45) + 0.4)
    grid = figure.subplots(rows, NUM_COLUMNS, sharex=True, sharey=True, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index >= num_views:
            axes.set_axis_off()
            continue
        _draw_view(axes, views, 0, index)
        axes.set_title(views.names[index], fontsize=8.5, fontweight="bold", loc="left")
        axes.set_ylabel("" if index % NUM_COLUMNS else views.unit, fontsize=7)
        axes.set_xlabel("s" if index + NUM_COLUMNS >= num_views else "", fontsize=7)
    figure.suptitle(title, fontsize=9)
    return figure


def _draw_view(axes: Axes, views: Views, row: int, column: int) -> None:
    values = views.values[row, column]
    seconds = (views.offsets[column] + np.arange(len(values))) / views.sampling_rates[row]
    note = ""
    if views.original is not None:
        original = views.original[row, column]
        change = float(np.sqrt(np.mean((values.astype(np.float64) - original) ** 2)))
        note = f"changed by {change:.2g} {views.unit} RMS" if change else "unchanged"
        if change:
            axes.plot(seconds, original, color=GRAY, linewidth=1.8, label="_original", zorder=1)
    axes.plot(seconds, values, color=INK, linewidth=0.6, label="view", zorder=2)
    axes.text(1.0, 1.01, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=6, color="#555555")
    axes.set_xlim(seconds[0], seconds[-1] + 1 / views.sampling_rates[row])
    axes.tick_params(labelsize=6)
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines[["top", "right"]].set_visible(False)


def _panel_width(num_views: int) -> float:
    """Return the width of a panel in inches."""
    return 3.0 if num_views <= MAX_VIEWS_BESIDE else 2.2
