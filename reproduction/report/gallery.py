"""Pictures of the report, in a folder beside its pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from clocs.drawing.figure import save_figure
from clocs.drawing.panels import Sweep
from reproduction.report.estimates import Mean
from reproduction.report.page import Block, Picture, Pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER: Final = "images"
NamedFigures = list[tuple[str, "Figure", str]]
"""File name without extension, figure and description, for each figure."""


class Gallery:
    """Writer of pictures."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self.made: list[Path] = []

    def pictures(self, drawn: NamedFigures) -> list[Block]:
        """Write pictures and return their block, or no block without pictures."""
        pictures = []
        for name, figure, shows in drawn:
            path = self._folder / f"{name}.svg"
            save_figure(figure, path)
            self.made.append(path)
            pictures.append(Picture(f"{FOLDER}/{path.name}", shows))
        return [Pictures(tuple(pictures))] if pictures else []

    def delete_stale(self) -> None:
        """Delete figures of an earlier report that this one does not have."""
        for path in self._folder.glob("figure-*.svg"):
            if path not in self.made:
                path.unlink()


def sweep(means: Sequence[Mean | None]) -> Sweep:
    """Return a line over several settings, with values by seed."""
    none = (np.nan, np.nan, np.nan)
    value, low, high = np.array([none if mean is None else (mean.value, mean.low, mean.high) for mean in means]).T
    seeds = tuple(np.array(() if mean is None or mean.deviation is None else mean.by_seed) for mean in means)
    return Sweep(value, low, high, seeds)
