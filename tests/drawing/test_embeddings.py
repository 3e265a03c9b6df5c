"""Maps show every patient in the right color. Distances have two histograms for each encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch

from clocs.core.errors import MissingExtraError
from clocs.drawing.embeddings import draw_distances, draw_groups, draw_map
from clocs.drawing.figure import COLORS, GRAY

POINTS = np.random.default_rng(0).normal(size=(60, 2))
LABELS = np.array(["SR"] * 30 + ["AF"] * 15 + ["several"] * 10 + ["none"] * 5)
AGES = np.concatenate([np.linspace(20, 90, 50), np.full(10, np.nan)])


def scattered(axes: Axes) -> dict[str, npt.NDArray[np.float64]]:
    return {str(item.get_label()): np.asarray(item.get_offsets()) for item in axes.collections}


def colors(axes: Axes) -> dict[str, str]:
    found = [item for item in axes.collections if isinstance(item, PathCollection)]
    return {str(item.get_label()): to_hex(item.get_facecolor()[0]) for item in found}  # type: ignore[arg-type]


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_categories_have_colors_and_uninformative_ones_are_gray() -> None:
    (axes,) = draw_map(POINTS, {"label": LABELS}, axes_names=("PC 1", "PC 2"), title="Chapman").axes
    drawn = scattered(axes)
    for word, points in drawn.items():
        np.testing.assert_allclose(points, POINTS[word == LABELS])
    assert colors(axes) == {"SR": COLORS[0], "AF": COLORS[1], "several": GRAY, "none": GRAY}
    assert list(drawn) == ["several", "none", "SR", "AF"], "gray below, rare above frequent"
    assert legend_of(axes) == ["SR", "AF", "several", "none"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("PC 1", "PC 2")


def test_numbers_have_a_color_scale_and_unknown_ones_are_gray() -> None:
    axes, bar = draw_map(POINTS, {"age": AGES}).axes
    unknown, known = axes.collections
    assert len(np.asarray(unknown.get_offsets())) == 10
    np.testing.assert_allclose(np.asarray(known.get_array()), AGES[:50])
    assert bar.get_ylabel() == "age"


def test_a_property_with_one_value_is_left_out() -> None:
    same = np.full(60, "chapman")
    figure = draw_map(POINTS, {"label": LABELS, "site": same, "age": np.full(60, 50.0)})
    assert [axes.get_title("left") for axes in figure.axes if axes.axison] == ["label"]
    (plain,) = draw_map(POINTS, {"site": same}).axes
    assert sum(len(points) for points in scattered(plain).values()) == 60, "the points are still drawn"


def test_many_categories_differ_in_color_or_marker() -> None:
    words = np.array([f"class {number % 12}" for number in range(60)])
    (axes,) = draw_map(POINTS, {"label": words}).axes
    found = [item for item in axes.collections if isinstance(item, PathCollection)]
    styles = {(to_hex(item.get_facecolor()[0]), np.asarray(item.get_paths()[0].vertices).tobytes()) for item in found}  # type: ignore[arg-type]
    assert len(styles) == 12


def test_groups_are_drawn_in_order_with_their_names() -> None:
    groups = np.array([1] * 30 + [0] * 20 + [-1] * 10)
    names = {0: "group 0, 20: SB", 1: "group 1, 30: AF", -1: "in no group, 10: SR"}
    (axes,) = draw_groups(POINTS, groups, names, title="groups").axes
    for number, name in names.items():
        np.testing.assert_allclose(scattered(axes)[name], POINTS[groups == number])
    assert legend_of(axes) == list(names.values())
    assert colors(axes)["in no group, 10: SR"] == GRAY
    (alone,) = draw_groups(POINTS, np.full(60, -1), {-1: "in no group, 60: "}).axes
    assert len(scattered(alone)) == 1


def test_equal_maps_give_equal_files(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_map(POINTS, {"label": LABELS, "age": AGES, "sex": LABELS}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def make_pair(seed: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]:
    random = np.random.default_rng(seed)
    return random.gamma(4, 0.5, 5000), random.gamma(9, 0.5, 8000)


def histograms(axes: Axes) -> dict[str, StepPatch]:
    return {str(patch.get_label()): patch for patch in axes.patches if isinstance(patch, StepPatch)}


def test_both_histograms_have_an_area_of_one_and_their_mean() -> None:
    intra, inter = make_pair(0)
    (axes,) = draw_distances({"cmsc": (intra, inter)}, title="validation patients").axes
    drawn = histograms(axes)
    assert list(drawn) == [f"intra-patient, mean {intra.mean():.3g}", f"inter-patient, mean {inter.mean():.3g}"]
    for distances, patch in zip((intra, inter), drawn.values(), strict=True):
        heights, edges, _ = patch.get_data()
        assert (heights * np.diff(edges)).sum() == pytest.approx(1, abs=0.003), "without the largest distances"
        index = 20
        inside = ((distances >= edges[index]) & (distances < edges[index + 1])).mean()
        assert heights[index] * (edges[1] - edges[0]) == pytest.approx(inside)
    means = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines]
    assert means == pytest.approx([intra.mean(), inter.mean()])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_encoder_has_a_panel(count: int) -> None:
    names = [f"encoder {number}" for number in range(count)]
    figure = draw_distances({name: make_pair(seed)[:2] for seed, name in enumerate(names)})  # type: ignore[misc]
    shown = [axes for axes in figure.axes if axes.patches]
    assert [axes.get_title("left") for axes in shown] == names
    assert not any(axes.axison for axes in figure.axes if axes not in shown)


def test_equal_distances_can_be_drawn(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_distances({"collapsed": (np.zeros(5), np.zeros(7))}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_map(POINTS, {"label": LABELS})
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_groups(POINTS, np.zeros(60, int), {0: "a"})
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_distances({"a": (np.ones(2), np.ones(2))})
