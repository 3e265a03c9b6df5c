"""Pictures of embeddings: a map of patients, and distances within a patient and between patients. Takes arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.batch import PLAIN
from clocs.drawing.curves import COLORS
from clocs.drawing.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]
Facts = npt.NDArray[np.str_] | Floats

PANEL: Final = 3.6
"""Inches, height of a panel and width without its legend."""
MARKERS: Final = ("o", "^", "s", "D")
"""When the colours are used up."""
GREY: Final = ("none", "several", "unknown")
"""Values that say nothing, drawn grey and below the others."""
SMALL: Final = 2_000
"""Points up to which they are drawn large."""
BINS: Final = 60
SHOWN: Final = 0.998
ACROSS: Final = 2
"""Panels side by side, at most."""


def draw_map(
    points: Floats,
    facts: Mapping[str, Facts],
    out: Path | None = None,
    *,
    axes_names: tuple[str, str] = ("", ""),
    title: str = "",
) -> Figure:
    """Points (P, 2), a panel for each fact (P,) by name: words as colours of their own, numbers as a scale.

    A fact that is the same for all is left out; NaN is grey.
    """
    telling = {name: values for name, values in facts.items() if _differs(values)}
    across = min(2, len(telling) or 1)
    down = -(-len(telling) // across) or 1
    figure = new_figure(across * (PANEL + 1.3), down * PANEL + 0.3)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (name, values) in zip(grid.flat, (telling or {"": np.full(len(points), "")}).items(), strict=False):
        axes.set_axis_on()
        if values.dtype.kind == "f":
            _draw_numbers(figure, axes, points, np.asarray(values, np.float64), name)
        else:
            _draw_words(axes, points, values.astype(str), {str(value): str(value) for value in np.unique(values)})
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
    """Points (P, 2) in the colour of their group (P,), with what each group is called; -1, in no group, is grey."""
    figure = new_figure(PANEL * 2 + 1.6, PANEL * 1.3)
    axes = figure.subplots()
    words = np.where(groups < 0, GREY[0], groups.astype(str))
    order = [str(number) for number in names if number >= 0]
    called = {str(number) if number >= 0 else GREY[0]: name for number, name in names.items()}
    _draw_words(axes, points, words, called, order)
    _finish(axes, "", axes_names)
    figure.suptitle(title, fontsize=9)
    if out is not None:
        save_figure(figure, out)
    return figure


def _differs(values: Facts) -> bool:
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return len(np.unique(known)) > 1


def _draw_numbers(figure: Figure, axes: Axes, points: Floats, values: Floats, name: str) -> None:
    unknown = np.isnan(values)
    axes.scatter(points[unknown, 0], points[unknown, 1], s=_size(points), color=PLAIN, linewidths=0)
    across, up, colour = points[~unknown, 0], points[~unknown, 1], values[~unknown]
    shown = axes.scatter(across, up, c=colour, s=_size(points), cmap="viridis", linewidths=0)
    bar = figure.colorbar(shown, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(name, fontsize=7)
    bar.ax.tick_params(labelsize=6)


def _draw_words(
    axes: Axes, points: Floats, words: npt.NDArray[np.str_], called: Mapping[str, str], order: Sequence[str] = ()
) -> None:
    """Each word in a colour; rare words above frequent ones. ``order``: of the legend and the colours."""
    known, counts = np.unique(words, return_counts=True)
    by_size = known[np.argsort(-counts, kind="stable")].tolist()
    coloured = list(order) or [word for word in by_size if word not in GREY]
    for word in (*(word for word in by_size if word in GREY), *coloured):
        place = coloured.index(word) if word in coloured else -1
        colour = PLAIN if place < 0 else COLORS[place % len(COLORS)]
        marker = MARKERS[max(place, 0) // len(COLORS) % len(MARKERS)]
        across, up = points[words == word].T
        axes.scatter(across, up, s=_size(points), color=colour, marker=marker, linewidths=0, label=called[word])
    handles, names = axes.get_legend_handles_labels()
    behind = len(handles) - len(coloured)  # what is drawn first, and grey, comes last in the legend
    axes.legend(
        handles[behind:] + handles[:behind],
        names[behind:] + names[:behind],
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        fontsize=6.5,
        frameon=False,
        markerscale=2,
        handletextpad=0.2,
    )


def _size(points: Floats) -> float:
    return 7.0 if len(points) <= SMALL else 3.5


def _finish(axes: Axes, name: str, axes_names: tuple[str, str]) -> None:
    axes.set_title(name, fontsize=8.5, fontweight="bold", loc="left")
    axes.set_xlabel(axes_names[0], fontsize=7)
    axes.set_ylabel(axes_names[1], fontsize=7)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(False)


def draw_distances(panels: Mapping[str, tuple[Floats, Floats]], out: Path | None = None, title: str = "") -> Figure:
    """For each encoder, by name, two histograms: intra-patient distances (n,) and inter-patient ones (m,).

    Each has the area 1, and a line at its mean. Panels have axes of their own: encoders differ in scale. They end where
    ``SHOWN`` of the distances do.
    """
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(across * 3.4 + 0.2, down * 2.3 + 0.3)
    grid = figure.subplots(down, across, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(panels):
            axes.set_axis_off()
    for axes, (name, (intra, inter)) in zip(grid.flat, panels.items(), strict=False):
        _draw_pair(axes, intra, inter)
        axes.set_title(name, fontsize=8.5, fontweight="bold", loc="left")
        axes.tick_params(labelsize=6)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("density", fontsize=7)
    figure.suptitle(title, fontsize=9)
    if out is not None:
        save_figure(figure, out)
    return figure


def _draw_pair(axes: Axes, intra: Floats, inter: Floats) -> None:
    longest = max(float(np.quantile(lengths, SHOWN)) for lengths in (intra, inter))
    edges = np.linspace(0, longest or 1.0, BINS + 1)
    highest = 0.0
    for name, lengths, colour in (("intra-patient", intra, COLORS[0]), ("inter-patient", inter, COLORS[1])):
        mean = float(lengths.mean())
        density = np.histogram(lengths, edges)[0] / len(lengths) / (edges[1] - edges[0])
        label = f"{name}, mean {mean:.3g}"
        axes.stairs(density, edges, fill=True, color=colour, alpha=0.55, label=label)
        highest = max(highest, float(density.max()))
        axes.axvline(mean, 0, 0.8, color=colour, linewidth=1.2, linestyle="--", label="_mean")
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, 1.3 * highest)  # room for the legend
    axes.set_xlabel("Euclidean distance", fontsize=7)
    axes.legend(fontsize=6.5, frameon=False, loc="upper right", ncols=2)
