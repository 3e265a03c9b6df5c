"""Distances within a patient and between patients, as the paper's figure 6 has them. Takes arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.curves import COLOURS
from clocs.drawing.figure import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.floating]

BINS: Final = 60
SHOWN: Final = 0.998
ACROSS: Final = 2
"""Panels side by side, at most."""


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
    for name, lengths, colour in (("intra-patient", intra, COLOURS[0]), ("inter-patient", inter, COLOURS[1])):
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
