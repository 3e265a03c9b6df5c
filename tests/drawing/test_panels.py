"""Panels show their data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from clocs.core.errors import MissingExtraError
from clocs.drawing.figure import save_figure
from clocs.drawing.panels import (
    PANEL_WIDTH,
    Sweep,
    draw_histograms,
    draw_sweep,
    draw_validation_curves,
)

NAN = float("nan")
CURVES = {"CMSC": [np.array([0.5, 0.6])]}


def only_axes(figure: Figure) -> Axes:
    (axes,) = figure.axes
    assert figure.get_size_inches()[0] == PANEL_WIDTH
    return axes


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_validation_curves_show_seeds_and_their_mean_over_common_epochs() -> None:
    runs = [np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.7, 0.8])]
    axes = only_axes(draw_validation_curves({"CMSC, F = 0.25": runs, "random weights, F = 1": runs[:1]}, "a"))
    first, second, mean, *_ = axes.lines
    assert [len(np.asarray(line.get_xdata())) for line in (first, second, mean)] == [4, 2, 2]
    assert np.asarray(mean.get_ydata()) == pytest.approx([0.6, 0.7])
    assert list(np.asarray(mean.get_xdata())) == [1, 2]
    assert len(axes.collections) == 1  # one seed has no band
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.6 - 0.1 * 2**0.5, 0.7 + 0.1 * 2**0.5))
    assert legend_texts(axes) == ["CMSC, F = 0.25", "random weights, F = 1"]


def test_sweeps_have_a_gap_where_a_value_is_missing() -> None:
    ours = np.array([0.6, NAN, 0.7])
    line = Sweep(ours, ours - 0.02, ours + 0.03)
    axes = only_axes(draw_sweep({"CMSC": line}, ["32", "64", "128"], "E", "F = 0.25"))
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_ydata()), ours)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["32", "64", "128"]
    assert legend_texts(axes) == ["CMSC"]


def test_sweeps_show_the_seeds_of_a_mean() -> None:
    ours = np.array([0.6, 0.7])
    line = Sweep(ours, ours, ours, seeds=(np.array([0.5, 0.7]), np.array([])))
    axes = only_axes(draw_sweep({"linear": line}, ["10", "30"], "patients", "Chapman"))
    dots = [axis for axis in axes.lines if axis.get_marker() == "."]
    assert [np.asarray(dot.get_ydata()).tolist() for dot in dots] == [[0.5, 0.7], []]
    assert legend_texts(axes) == ["linear"]


def test_histograms_have_an_area_of_one() -> None:
    edges = np.array([0.0, 1.0, 3.0, 4.0])
    axes = only_axes(
        draw_histograms(edges, np.array([1.0, 2.0, 1.0]), np.array([0.0, 50.0, 50.0]), (1.9, 2.75), "CMSC")
    )
    for patch in axes.patches:
        assert isinstance(patch, StepPatch)
        values, found, _ = patch.get_data()
        assert float(np.sum(values * np.diff(found))) == pytest.approx(1)
    assert legend_texts(axes) == ["within patients, mean 1.9", "between patients, mean 2.75"]


def test_equal_panels_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_figure(draw_validation_curves(CURVES, "CMSC"), tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match="'plot'"):
        draw_validation_curves(CURVES, "CMSC")
