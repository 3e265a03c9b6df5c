"""Cells are computed once, whoever computes them; one that fails does not stop the others."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.experiments.cells import Cell
from clocs.experiments.grid import TaskOutcome, TimeLeft, compute_cell, parse_shard, run_grid, run_task, tasks
from clocs.experiments.status import Costs
from clocs.experiments.workspace import Workspace
from tests.experiments.toy_cells import Number, Sum, computed, run_toy


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "stores", tmp_path / "runs", tmp_path / "results")


def test_a_grid_is_computed_once(workspace: Workspace) -> None:
    cells: list[Cell] = [Sum(number=Number(value=2)), Sum(number=Number(value=2), more=5), Number(value=3)]
    assert run_grid(cells, workspace, run_toy).finished == 4
    assert [row["result"] for _, row in workspace.table.rows()] == [2, 3, 7, 3]
    assert list(tasks(cells, workspace, run_toy)) == []
    again = run_grid(cells, workspace, run_toy)
    assert (again.finished, again.failed) == (0, [])
    assert len(computed(workspace)) == 4


def test_a_task_has_the_cells_that_require_its_first(workspace: Workspace) -> None:
    two, three = Number(value=2), Number(value=3)
    cells: list[Cell] = [Sum(number=two), Sum(number=three), Sum(number=two, more=5), Number(value=4)]
    found = [task.cells for task in tasks(cells, workspace, run_toy)]
    assert found == [(two, cells[0], cells[2]), (three, cells[1]), (cells[3],)]


def test_deleted_files_are_computed_again_only_if_they_are_read(workspace: Workspace) -> None:
    two = Number(value=2)
    run_grid([Sum(number=two)], workspace, run_toy)
    shutil.rmtree(workspace.runs)
    assert run_grid([two, Sum(number=two)], workspace, run_toy).finished == 0
    assert run_grid([Sum(number=two, more=9)], workspace, run_toy).finished == 2
    assert computed(workspace) == ["number-2", "sum-2-9"]
    assert [row["result"] for _, row in workspace.table.rows()] == [2, 3, 11], "the row of the number is there once"


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_share_all_tasks_without_overlap(workspace: Workspace, count: int) -> None:
    cells = [Sum(number=Number(value=value)) for value in range(5)]
    whole = {cell.label for task in tasks(cells, workspace, run_toy) for cell in task.cells}
    parts = [
        [cell.label for task in tasks(cells, workspace, run_toy, shard=(i, count)) for cell in task.cells]
        for i in range(count)
    ]
    assert sorted(label for part in parts for label in part) == sorted(whole)


def test_a_name_depends_on_every_value_and_not_on_the_folders(workspace: Workspace) -> None:
    cells: list[Cell] = [Number(value=1), Number(value=1, seed=1), Number(value=2), Sum(number=Number(value=1))]
    assert len({workspace.name(cell) for cell in cells}) == len(cells)
    elsewhere = Workspace(workspace.stores, Path("elsewhere"), Path("other"))
    assert workspace.name(cells[0]) == elsewhere.name(cells[0])


def test_defaults_are_not_part_of_a_description() -> None:
    assert Number(value=1).describe() == {"kind": "number", "value": 1}
    assert Sum(number=Number(value=1, seed=2)).describe() == {"kind": "sum", "number": {"value": 1, "seed": 2}}


def test_a_cell_that_fails_is_reported_and_the_others_are_computed(workspace: Workspace) -> None:
    cells: list[Cell] = [Sum(number=Number(value=-1)), Number(value=13), Number(value=1)]
    done = run_grid(cells, workspace, run_toy)
    assert done.finished == 1
    assert [message.split(": ", 1)[1] for message in done.failed] == [
        "a number must not be negative",
        f"requires {workspace.name(Number(value=-1))}",
        "unexpected ZeroDivisionError('division by zero')",
    ]


def test_cells_with_missing_inputs_are_skipped_and_counted(workspace: Workspace) -> None:
    done = run_grid([Number(value=1, dataset="chapman"), Number(value=1)], workspace, run_toy)
    assert (done.finished, done.failed, done.missing_inputs) == (1, [], {"store of chapman": 1})


def test_claimed_cells_are_awaited_and_not_repeated(workspace: Workspace) -> None:
    """A lock of an open file is what another process would hold; it finishes the cell and lets go."""
    cells = [Number(value=1), Number(value=2)]
    (task, _) = tasks(cells, workspace, run_toy)
    lock = workspace.runs / "claims" / workspace.name(cells[0])
    lock.parent.mkdir(parents=True)
    order: list[str] = []
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run_task(task) == TaskOutcome(claimed=task)

        def through(done: TaskOutcome) -> None:
            order.extend(done.names)
            if len(order) == 1:
                workspace.add_result(cells[0], {"result": 100})
                cells[0].file(workspace).write_text("1")
                fcntl.flock(file, fcntl.LOCK_UN)

        assert run_grid(cells, workspace, run_toy, progress=through).failed == []
    assert order == [workspace.name(cells[1]), workspace.name(cells[0])]
    assert compute_cell(cells[0], workspace, run_toy)["result"] == 100
    assert computed(workspace) == ["number-2"]


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_all_engines_write_one_table(workspace: Workspace, engine: str) -> None:
    cells = [Sum(number=Number(value=value)) for value in range(6)]
    assert run_grid(cells, workspace, run_toy, engine=engine, workers=2).finished == 12  # type: ignore[arg-type]
    assert sorted(row["result"] for _, row in workspace.table.rows()) == sorted([*range(6), *range(1, 7)])


def test_the_time_left_is_estimated_from_similar_cells(workspace: Workspace) -> None:
    cells = [Number(value=7, seed=seed) for seed in range(5)]
    left = TimeLeft(tasks(cells, workspace, run_toy), Costs(), workers=2)
    assert (left.cells, left.done) == (5, 0)
    for cell, seconds in zip(cells[:2], (100, 300), strict=True):
        workspace.add_result(cell, {"seconds": seconds})
        left.count(TaskOutcome((workspace.name(cell),)))
    assert left.seconds == pytest.approx(3 * 200 / 2)
    left.count(TaskOutcome(failed={workspace.name(cells[2]): "why"}))
    assert left.seconds == pytest.approx(2 * 200 / 2)
    assert left.done == 3


def test_an_invalid_shard_is_rejected() -> None:
    for text in ("2/2", "a/b", "1", "-1/3"):
        with pytest.raises(ConfigError, match="i/n"):
            parse_shard(text)
    assert parse_shard("1/3") == (1, 3)
