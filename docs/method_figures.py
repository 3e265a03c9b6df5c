"""Draw the figures of the page on the method: views of a recording, and the cells of the loss.

Sphinx calls ``draw_method_figures`` when a build begins. The figures follow from the code, so they are not committed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import ConnectionPatch
from synthetic_gallery import example

BLUE, GREEN, YELLOW, GREY = "#1d4ed8", "#15803d", "#eab308", "#d4d4d8"
SECONDS = 2.5
LEADS = ("II", "V2")
PAIRS = {
    "CMSC": [((0, 0), (0, 1)), ((1, 0), (1, 1))],
    "CMLC": [((0, 0), (1, 0)), ((0, 1), (1, 1))],
    "CMSMLC": [
        ((0, 0), (0, 1)),
        ((1, 0), (1, 1)),
        ((0, 0), (1, 0)),
        ((0, 1), (1, 1)),
        ((0, 0), (1, 1)),
        ((0, 1), (1, 0)),
    ],
}
"""Pairs of views, each (lead, segment), that attract each other."""
PATIENTS = (0, 1, 1, 2, 3, 3)


def draw_method_figures(folder: Path) -> None:
    """Write ``synthetic/views.svg`` and ``synthetic/cells.svg``.

    Args:
        folder: Folder of the documentation's sources.
    """
    pictures = folder / "synthetic"
    pictures.mkdir(exist_ok=True)
    _draw_views(pictures / "views.svg")
    _draw_cells(pictures / "cells.svg")


def _draw_views(path: Path) -> None:
    recording = example("SR")
    length = round(SECONDS * recording.sampling_rate)
    figure, axes = plt.subplots(2, 6, figsize=(10, 2.6), sharey="row", gridspec_kw={"wspace": 0.35, "hspace": 0.5})
    for method, (name, pairs) in enumerate(PAIRS.items()):
        panels = axes[:, 2 * method : 2 * method + 2]
        for (row, column), panel in np.ndenumerate(panels):
            segment = recording.signal[recording.leads.index(LEADS[row])][column * length : (column + 1) * length]
            panel.plot(segment, color="black", linewidth=0.7)
            panel.set(xticks=[], yticks=[])
            if method == 0 and column == 0:
                panel.set_ylabel(LEADS[row], rotation=0, labelpad=12, va="center")
            if row == 1:
                panel.set_xlabel(f"segment {column + 1}", fontsize=8)
        middle = (panels[0, 0].get_position().x0 + panels[0, 1].get_position().x1) / 2
        figure.text(middle, 0.97, name, ha="center", weight="bold")
        for first, second in pairs:
            _connect(panels[first], panels[second])
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _connect(first: Axes, second: Axes) -> None:
    """Draw an arrow between the middles of two panels."""
    same = {"coordsA": "axes fraction", "coordsB": "axes fraction", "axesA": first, "axesB": second}
    arrow = ConnectionPatch((0.5, 0.5), (0.5, 0.5), arrowstyle="<->", color=BLUE, linewidth=1.4, alpha=0.8, **same)
    first.figure.add_artist(arrow)


def _draw_cells(path: Path) -> None:
    patients = np.array(PATIENTS)
    cells = (patients[:, None] == patients).astype(int)
    np.fill_diagonal(cells, 2)
    figure, axes = plt.subplots(figsize=(3.2, 3.2))
    axes.imshow(cells, cmap=ListedColormap([GREY, YELLOW, GREEN]), extent=(0, len(patients), len(patients), 0))
    ticks = np.arange(len(patients)) + 0.5
    names = [f"patient {patient + 1}" for patient in patients]
    axes.set_xticks(ticks, names, rotation=90, fontsize=8)
    axes.set_yticks(ticks, names, fontsize=8)
    axes.set(xlabel="second view", ylabel="first view")
    axes.hlines(range(len(patients)), 0, len(patients), color="white")
    axes.vlines(range(len(patients)), 0, len(patients), color="white")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
