"""Pictures of a batch: every trace is a view, every marked cell a pair of one patient."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clocs.core.errors import MissingExtraError
from clocs.drawing.batch import (
    OTHER,
    SAME_INSTANCE,
    SAME_PATIENT,
    Similarity,
    Views,
    draw_augmentations,
    draw_batch,
    draw_similarity,
    kinds,
)

PATIENTS = np.array([7, 3, 7, 5, 3, 7])


def make_views(instances: int = 3, views: int = 2, num_samples: int = 50) -> Views:
    random = np.random.default_rng(0)
    plain = random.normal(size=(instances, views, num_samples)).astype(np.float32)
    values = plain + np.float32(0.5)
    values[0, 0] = plain[0, 0]
    return Views(
        values=values,
        plain=plain,
        rates=np.array([10.0, 20.0, 50.0])[:instances],
        offsets=np.arange(views) * num_samples,
        names=tuple(f"segment {number + 1}" for number in range(views)),
        instances=tuple(f"record {number}" for number in range(instances)),
    )


def make_similarity(patients: np.ndarray[Any, np.dtype[np.int64]] = PATIENTS) -> Similarity:
    values = np.random.default_rng(1).uniform(-1, 1, (len(patients), len(patients)))
    return Similarity(values, patients, ("segment 1", "segment 2"), "cosine")


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.get_axes() if axes.lines]


def traces(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.lines}


def words(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_every_cell_is_of_the_kind_that_its_pair_is() -> None:
    found = kinds(PATIENTS)
    for i, k in itertools.product(range(len(PATIENTS)), repeat=2):
        expected = SAME_INSTANCE if i == k else SAME_PATIENT if PATIENTS[i] == PATIENTS[k] else OTHER
        assert found[i, k] == expected, (i, k)
    assert (found == SAME_PATIENT).sum() == 3 * 2 + 2 * 1


def drawn_cells(figure: Figure) -> dict[str, np.ma.MaskedArray[Any, Any]]:
    """What is to be seen of each kind of cell."""
    images = {str(image.get_label()): image.get_array() for axes in figure.get_axes() for image in axes.images}
    return {name: np.ma.asarray(image) for name, image in images.items()}


def test_marked_cells_are_exactly_the_pairs_of_one_patient() -> None:
    figure, given = Figure(layout="constrained"), make_similarity()
    draw_similarity(figure, given)
    cells = drawn_cells(figure)
    same = PATIENTS[:, None] == PATIENTS
    diagonal = np.eye(len(PATIENTS), dtype=bool)
    expected = {"same instance": diagonal, "same patient": same & ~diagonal, "other patients": ~same}
    assert cells.keys() == expected.keys()
    for name, shown in expected.items():
        np.testing.assert_array_equal(~np.ma.getmaskarray(cells[name]), shown, name)
        np.testing.assert_array_equal(cells[name].compressed(), given.values[shown], name)


def test_the_legend_has_the_mean_of_each_kind() -> None:
    figure, given = Figure(layout="constrained"), make_similarity()
    draw_similarity(figure, given)
    labels = " ".join(axes.get_xlabel() for axes in figure.get_axes())
    same = (PATIENTS[:, None] == PATIENTS) & ~np.eye(len(PATIENTS), dtype=bool)
    assert f"same patient\nmean {given.values[same].mean():.3f}" in labels
    assert f"same instance\nmean {given.values.diagonal().mean():.3f}" in labels


def test_a_batch_without_repeated_patients_says_so() -> None:
    figure = Figure(layout="constrained")
    draw_similarity(figure, make_similarity(np.arange(6)))
    assert any(axes.get_xlabel() == "same patient\nnone here" for axes in figure.get_axes())
    assert drawn_cells(figure)["same patient"].count() == 0


@pytest.mark.parametrize("width", [2, 5])
def test_every_trace_is_its_view_over_what_it_was(width: int) -> None:
    views = make_views(views=width)
    grid = panels(draw_batch(views, make_similarity()))
    assert len(grid) == 3 * width
    for (row, column), axes in zip(np.ndindex(3, width), grid, strict=True):
        lines = traces(axes)
        x, y = (np.asarray(values, float) for values in lines["view"].get_data())
        np.testing.assert_allclose(x, (views.offsets[column] + np.arange(50)) / views.rates[row])
        np.testing.assert_array_equal(y, views.values[row, column])
        if (row, column) == (0, 0):
            assert "_before" not in lines
            assert "as it was" in words(axes)
        else:
            assert views.plain is not None
            np.testing.assert_array_equal(np.asarray(lines["_before"].get_ydata(), float), views.plain[row, column])
            assert "changed by 0.5 mV rms" in words(axes)
            assert lines["_before"].get_zorder() < lines["view"].get_zorder()


def test_views_and_instances_are_named() -> None:
    grid = panels(draw_batch(make_views(), make_similarity()))
    assert [word for axes in grid for word in words(axes) if word.startswith("segment")] == ["segment 1", "segment 2"]
    assert [axes.get_title("left") for axes in grid[::2]] == ["record 0", "record 1", "record 2"]
    assert {axes.get_ylabel() for axes in grid[::2]} == {"mV"}
    assert {axes.get_xlabel() for axes in grid[-2:]} == {"s"}


def test_nothing_is_said_of_changes_where_nothing_is_augmented() -> None:
    grid = panels(draw_batch(replace(make_views(), plain=None), make_similarity()))
    assert all(list(traces(axes)) == ["view"] for axes in grid)
    assert not any("changed" in word or "as it was" in word for axes in grid for word in words(axes))


def test_augmentations_have_a_panel_each() -> None:
    views = make_views(instances=1, views=5)
    grid = panels(draw_augmentations(views, "one frame"))
    assert [axes.get_title("left") for axes in grid] == list(views.names)
    for column, axes in enumerate(grid):
        np.testing.assert_array_equal(np.asarray(traces(axes)["view"].get_ydata(), float), views.values[0, column])


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_batch(make_views(), make_similarity())
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_augmentations(make_views())


def test_importing_it_does_not_import_matplotlib() -> None:
    code = "import sys, clocs.drawing.batch; assert not {'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
