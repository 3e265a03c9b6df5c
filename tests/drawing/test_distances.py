"""Histograms of distances: areas, means, panels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from clocs.core.errors import MissingExtraError
from clocs.drawing.distances import draw_distances


def make_pair(seed: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    random = np.random.default_rng(seed)
    return random.gamma(4, 0.5, 5000), random.gamma(9, 0.5, 8000)


def histograms(axes: Axes) -> dict[str, StepPatch]:
    return {str(patch.get_label()): patch for patch in axes.patches if isinstance(patch, StepPatch)}


def test_both_histograms_have_the_area_one_and_their_mean() -> None:
    intra, inter = make_pair(0)
    (axes,) = draw_distances({"cmsc": (intra, inter)}, title="validation patients").axes
    drawn = histograms(axes)
    assert list(drawn) == [f"intra-patient, mean {intra.mean():.3g}", f"inter-patient, mean {inter.mean():.3g}"]
    for lengths, patch in zip((intra, inter), drawn.values(), strict=True):
        heights, edges, _ = patch.get_data()
        assert (heights * np.diff(edges)).sum() == pytest.approx(1, abs=0.003), "but for the longest ones"
        place = 20
        inside = ((lengths >= edges[place]) & (lengths < edges[place + 1])).mean()
        assert heights[place] * (edges[1] - edges[0]) == pytest.approx(inside)
    means = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines]
    assert means == pytest.approx([intra.mean(), inter.mean()])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_encoder_has_a_panel(count: int) -> None:
    names = [f"encoder {number}" for number in range(count)]
    figure = draw_distances({name: make_pair(place)[:2] for place, name in enumerate(names)})  # type: ignore[misc]
    shown = [axes for axes in figure.axes if axes.patches]
    assert [axes.get_title("left") for axes in shown] == names
    assert not any(axes.axison for axes in figure.axes if axes not in shown)


def test_equal_distances_are_drawn_too(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_distances({"collapsed": (np.zeros(5), np.zeros(7))}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_distances({"a": (np.ones(2), np.ones(2))})
