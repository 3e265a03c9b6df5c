"""The status of a grid: what is done and missing, and costs estimated from the most similar finished cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.experiments.grid import run_grid
from clocs.experiments.status import DEFAULT, Costs, Estimate, statuses, totals
from clocs.experiments.workspace import Workspace
from tests.experiments.toy_cells import Number, Sum, run_toy


def test_the_most_similar_cells_determine_the_estimate() -> None:
    costs = Costs()
    assert costs.estimate(Number(value=3)) == Estimate(6.0, DEFAULT)
    costs.learn(Number(value=2), 20.0)
    assert costs.estimate(Number(value=3)) == Estimate(30.0, "same kind")
    costs.learn(Number(value=3), 3.0)
    assert costs.estimate(Number(value=3, seed=1)) == Estimate(3.0, "same value")
    assert costs.estimate(Sum(number=Number(value=3))).basis == DEFAULT


def test_the_estimate_is_the_median_of_measured_times() -> None:
    costs = Costs()
    for seed, seconds in enumerate((4.0, 8.0, 4000.0, None, -1.0)):
        costs.learn(Number(value=4, seed=seed), seconds)
    costs.learn(Number(value=0), 5.0)
    assert costs.estimate(Number(value=4)).seconds == pytest.approx(8.0)


def test_cells_done_and_to_do_with_their_cost_and_missing_inputs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "stores", tmp_path / "runs", tmp_path / "results")
    run_grid([Number(value=1)], workspace, run_toy)
    cells = [Sum(number=Number(value=1)), Sum(number=Number(value=1)), Sum(number=Number(value=2, dataset="chapman"))]
    found = totals(statuses(cells, workspace, Costs()))
    assert (found["cells"], found["done"], found["to_do"], found["runnable"]) == (4, 1, 3, 1)
    assert found["missing_inputs"] == {"store of chapman": 2}
    assert 3600 * found["core_hours"] == pytest.approx(5 + 5 + 4)
    assert 3600 * found["runnable_core_hours"] == pytest.approx(5)
    assert found["estimated_from"] == {"default": 3}


def test_an_empty_grid_costs_nothing(tmp_path: Path) -> None:
    found = totals(statuses([], Workspace(tmp_path, tmp_path, tmp_path), Costs()))
    assert (found["cells"], found["core_hours"], found["missing_inputs"]) == (0, 0, {})


def test_without_stores_a_cell_counts_by_its_key(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path, tmp_path)
    cell = Number(value=1, dataset="chapman")
    assert not statuses([cell], workspace, Costs())[cell.key].done
    assert statuses([cell], workspace, Costs(), {cell.key})[cell.key].done
