"""Figures of a batch show all views and the kinds of all pairs."""

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
    pair_kinds,
)

PATIENTS = np.array([7, 3, 7, 5, 3, 7])


def make_views(instances: int = 3, views: int = 2, num_samples: int = 50) -> Views:
    random = np.random.default_rng(0)
    original = random.normal(size=(instances, views, num_samples)).astype(np.float32)
    values = original + np.float32(0.5)
    values[0, 0] = original[0, 0]
    return Views(
        values=values,
        original=original,
        sampling_rates=np.array([10.0, 20.0, 50.0])[:instances],
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


def notes(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_pair_kinds() -> None:
    found = pair_kinds(PATIENTS)
    for i, k in itertools.product(range(len(PATIENTS)), repeat=2):
        expected = SAME_INSTANCE if i == k else SAME_PATIENT if PATIENTS[i] == PATIENTS[k] else OTHER
        assert found[i, k] == expected, (i, k)
    assert (found == SAME_PATIENT).sum() == 3 * 2 + 2 * 1


def drawn_cells(figure: Figure) -> dict[str, np.ma.MaskedArray[Any, Any]]:
    """Return the drawn cells of each kind."""
    images = {str(image.get_label()): image.get_array() for axes in figure.get_axes() for image in axes.images}
    return {name: np.ma.asarray(image) for name, image in images.items()}


def test_each_kind_of_pair_has_its_cells() -> None:
    figure, similarity = Figure(layout="constrained"), make_similarity()
    draw_similarity(figure, similarity)
    cells = drawn_cells(figure)
    same = PATIENTS[:, None] == PATIENTS
    diagonal = np.eye(len(PATIENTS), dtype=bool)
    expected = {"same instance": diagonal, "same patient": same & ~diagonal, "other patients": ~same}
    assert cells.keys() == expected.keys()
    for name, mask in expected.items():
        np.testing.assert_array_equal(~np.ma.getmaskarray(cells[name]), mask, name)
        np.testing.assert_array_equal(cells[name].compressed(), similarity.values[mask], name)


def test_the_legend_has_the_mean_of_each_kind() -> None:
    figure, similarity = Figure(layout="constrained"), make_similarity()
    draw_similarity(figure, similarity)
    labels = " ".join(axes.get_xlabel() for axes in figure.get_axes())
    same = (PATIENTS[:, None] == PATIENTS) & ~np.eye(len(PATIENTS), dtype=bool)
    assert f"same patient\nmean {similarity.values[same].mean():.3f}" in labels
    assert f"same instance\nmean {similarity.values.diagonal().mean():.3f}" in labels


def test_the_legend_of_a_batch_without_repeated_patients() -> None:
    figure = Figure(layout="constrained")
    draw_similarity(figure, make_similarity(np.arange(6)))
    assert any(axes.get_xlabel() == "same patient\nnone in this batch" for axes in figure.get_axes())
    assert drawn_cells(figure)["same patient"].count() == 0


@pytest.mark.parametrize("num_views", [2, 5])
def test_every_view_is_drawn_over_its_original(num_views: int) -> None:
    views = make_views(views=num_views)
    grid = panels(draw_batch(views, make_similarity()))
    assert len(grid) == 3 * num_views
    for (row, column), axes in zip(np.ndindex(3, num_views), grid, strict=True):
        lines = traces(axes)
        x, y = (np.asarray(values, float) for values in lines["view"].get_data())
        np.testing.assert_allclose(x, (views.offsets[column] + np.arange(50)) / views.sampling_rates[row])
        np.testing.assert_array_equal(y, views.values[row, column])
        if (row, column) == (0, 0):
            assert "_original" not in lines
            assert "unchanged" in notes(axes)
        else:
            assert views.original is not None
            np.testing.assert_array_equal(
                np.asarray(lines["_original"].get_ydata(), float), views.original[row, column]
            )
            assert "changed by 0.5 mV RMS" in notes(axes)
            assert lines["_original"].get_zorder() < lines["view"].get_zorder()


def test_views_and_instances_are_named() -> None:
    grid = panels(draw_batch(make_views(), make_similarity()))
    assert [note for axes in grid for note in notes(axes) if note.startswith("segment")] == ["segment 1", "segment 2"]
    assert [axes.get_title("left") for axes in grid[::2]] == ["record 0", "record 1", "record 2"]
    assert {axes.get_ylabel() for axes in grid[::2]} == {"mV"}
    assert {axes.get_xlabel() for axes in grid[-2:]} == {"s"}


def test_views_without_augmentation_have_no_note() -> None:
    grid = panels(draw_batch(replace(make_views(), original=None), make_similarity()))
    assert all(list(traces(axes)) == ["view"] for axes in grid)
    assert not any("changed" in note for axes in grid for note in notes(axes))


def test_each_augmentation_has_a_panel() -> None:
    views = make_views(instances=1, views=5)
    grid = panels(draw_augmentations(views, "one frame"))
    assert [axes.get_title("left") for axes in grid] == list(views.names)
    for column, axes in enumerate(grid):
        np.testing.assert_array_equal(np.asarray(traces(axes)["view"].get_ydata(), float), views.values[0, column])


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_batch(make_views(), make_similarity())
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_augmentations(make_views())


def test_importing_it_does_not_import_matplotlib() -> None:
    code = "import sys, clocs.drawing.batch; assert not {'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
