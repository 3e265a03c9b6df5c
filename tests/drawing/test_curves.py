"""Figures of results show their data, and legends have the right numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from clocs.core.errors import MissingExtraError
from clocs.drawing.curves import LearningCurve, draw_learning_curves, draw_reliability, draw_roc
from clocs.drawing.figure import COLORS

Floats = npt.NDArray[np.float64]

ROC: dict[str, Floats] = {
    "AF": np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
    "SR": np.array([[0.0, 0.5, 1.0], [0.0, 1.0, 1.0]]),
    "PVC": np.empty((2, 0)),
}
"""Curves with areas of 1 and 3/4, and an undefined one."""
NAMES = ("AF", "SR", "PVC", "LBBB", "RBBB")
EDGES = np.linspace(0, 1, 5)


def make_runs() -> dict[str, LearningCurve]:
    short, long = np.arange(5), np.arange(8)
    return {
        "cmsc": LearningCurve(short, 5.0 - short, np.array([4.0, 3.0, 2.0, 2.5, 3.0]), 2.0 + short),
        "simclr": LearningCurve(long, 9.0 - long, np.array([9.0, np.nan, 8, 7, 6, 5, 4, 4.5]), 20.0 + long),
    }


def make_bins() -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Return counts, probabilities and frequencies of shape (5, 4) with one empty bin."""
    count = np.arange(1, 21).reshape(5, 4) * 10
    mean = (EDGES[:-1] + 0.125) + np.zeros((5, 1))
    observed = np.linspace(0, 1, 20).reshape(5, 4)
    count[1, 2], mean[1, 2], observed[1, 2] = 0, np.nan, np.nan
    return count, mean, observed


def lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines}


def points(line: Line2D) -> Floats:
    return np.array([np.asarray(values, float) for values in line.get_data()])


def test_roc_curves_are_drawn_with_their_areas_and_the_mean() -> None:
    (axes,) = draw_roc(ROC, title="test part").axes
    drawn = lines(axes)
    assert set(drawn) == {"_chance", "AF  1.000", "SR  0.750", "PVC  undefined", "macro  0.875"}
    np.testing.assert_array_equal(points(drawn["SR  0.750"]), ROC["SR"])
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(drawn)[1:]
    assert axes.get_title() == "test part"


def test_the_mean_curve_has_the_mean_area() -> None:
    (axes,) = draw_roc(ROC).axes
    false, true = points(lines(axes)["macro  0.875"])
    assert np.trapezoid(true, false) == pytest.approx(0.875, abs=0.002)
    assert np.interp(0.25, false, true) == pytest.approx((1.0 + 0.5) / 2)


def test_many_classes_differ_in_color_or_line_style() -> None:
    (axes,) = draw_roc({f"class {number}": ROC["SR"] for number in range(3 * len(COLORS))}).axes
    styles = {
        (line.get_color(), line.get_linestyle()) for name, line in lines(axes).items() if name.startswith("class")
    }
    assert len(styles) == 3 * len(COLORS)


def test_undefined_classes_have_no_mean_curve() -> None:
    (axes,) = draw_roc({"AF": np.empty((2, 0))}).axes
    assert set(lines(axes)) == {"_chance", "AF  undefined"}


@pytest.mark.parametrize("classes", [1, 3, 5])
def test_every_class_has_its_points_and_counts(classes: int) -> None:
    count, mean, observed = make_bins()
    figure = draw_reliability(NAMES[:classes], EDGES, count[:classes], mean[:classes], observed[:classes])
    diagrams = {axes.get_title("left"): axes for axes in figure.axes if axes.lines}
    assert tuple(diagrams) == NAMES[:classes]
    histograms = [axes for axes in figure.axes if axes.patches]
    for index, (axes, below) in enumerate(zip(diagrams.values(), histograms, strict=True)):
        filled = count[index] > 0
        np.testing.assert_allclose(points(lines(axes)["observed"]), [mean[index][filled], observed[index][filled]])
        bars = [bar for bar in below.patches if isinstance(bar, Rectangle)]
        assert [bar.get_height() for bar in bars] == count[index].tolist()
        assert [bar.get_x() for bar in bars] == EDGES[:-1].tolist()
        assert below.get_position().x0 == pytest.approx(axes.get_position().x0)
        assert below.get_ylim() == histograms[0].get_ylim(), "classes share the scale of counts"
    hidden = [axes for axes in figure.axes if not axes.lines and not axes.patches]
    assert not any(axes.axison for axes in hidden)


def test_each_run_has_a_column_of_losses_and_rank() -> None:
    runs = make_runs()
    figure = draw_learning_curves(runs, title="runs")
    upper, lower = figure.axes[: len(runs)], figure.axes[len(runs) :]
    assert [axes.get_title("left") for axes in upper] == list(runs)
    for losses, rank, run in zip(upper, lower, runs.values(), strict=True):
        assert {name for name in lines(losses) if not name.startswith("_")} == {"training", "validation"}
        np.testing.assert_array_equal(points(lines(losses)["training"]), [run.epoch, run.training_loss])
        np.testing.assert_array_equal(points(lines(losses)["validation"]), [run.epoch, run.validation_loss])
        np.testing.assert_array_equal(points(lines(rank)["effective rank"]), [run.epoch, run.effective_rank])
    assert lower[0].get_ylim() == lower[1].get_ylim(), "runs share the scale of ranks"
    assert lower[0].get_ylim()[1] > 27


def test_the_best_epoch_is_marked_in_both_rows() -> None:
    figure = draw_learning_curves(make_runs())
    marks = [points(lines(axes)["_best"]).ravel().tolist() for axes in figure.axes]
    assert marks == [[2, 2.0], [6, 4.0], [2, 4.0], [6, 26.0]]


DRAWINGS: list[Callable[[Path | None], Figure]] = [
    lambda out: draw_roc(ROC, out),
    lambda out: draw_reliability(NAMES, EDGES, *make_bins(), out),
    lambda out: draw_learning_curves(make_runs(), out),
]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_equal_data_give_equal_files(tmp_path: Path, draw: Callable[[Path | None], Figure]) -> None:
    for name in ("a.svg", "b.svg"):
        draw(tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second
    assert b"<svg" in first


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    for draw in DRAWINGS:
        with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
            draw(None)


def test_importing_it_does_not_import_matplotlib() -> None:
    code = "import sys, clocs.drawing.curves; assert not {'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
