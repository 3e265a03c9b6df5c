"""Cells are done once, whoever does them; one that cannot be done leaves the others be."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError, LeakError
from clocs.experiments import carry_out as module
from clocs.experiments.carry_out import carry_out, pretrain_config
from clocs.experiments.cells import Cell, Evaluation, Pretraining, told_of
from clocs.experiments.costs import Costs
from clocs.experiments.grid import Done, TimeLeft, parse_shard, run_grid, run_task, tasks
from clocs.experiments.paper_tables import find_experiment
from clocs.experiments.place import Place
from clocs.experiments.search import search
from clocs.experiments.status import FULL_DOWNLOADS
from clocs.experiments.tables import EXPERIMENTS, chosen_cells

CMSC = Pretraining(method="cmsc", dataset="synthetic", epochs=1, preset="recommended")


def linear(start: Pretraining | None = CMSC, **told: Any) -> Evaluation:
    return Evaluation(protocol="linear", start=start, dataset="synthetic", preset="recommended", **told)


def names(place: Place) -> list[str]:
    return sorted(path.name for path in (place.results / "cells").iterdir())


def test_a_grid_is_done_once_and_looked_up_after(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[Cell] = [linear(), linear(fraction=0.25), linear(None)]
    assert len([cell for task in tasks(cells, place) for cell in task.cells]) == 4
    assert run_grid(cells, place).finished == 4
    assert list(tasks(cells, place)) == []
    kept = {path.name: path.read_bytes() for path in (place.results / "cells").iterdir()}
    monkeypatch.setattr(module, "pretrain", None)
    monkeypatch.setattr(module, "probe", None)
    again = run_grid(cells, place)
    assert (again.finished, again.failed) == (0, [])
    assert carry_out(cells[0], place) == json.loads(kept[place.file(cells[0]).name])


def test_an_encoder_outlives_its_run(place: Place, tmp_path: Path) -> None:
    """Results alone are enough for another evaluation."""
    carry_out(CMSC, place)
    shutil.rmtree(place.runs)
    found = carry_out(linear(fraction=1.0), place)
    assert 0 < found["result"]["test"]["frame"]["auc"]["value"] < 1
    assert found["result"]["contract"]["seen"]["train"] > 0


def test_principal_components_come_after_a_pretraining_that_is_done_once(place: Place) -> None:
    plain = CMSC.model_copy(update={"config": {"encoder": {"name": "resnet", "width": 8}}})
    refined = plain.model_copy(update={"principal": True})
    assert run_grid([linear(refined), linear(plain)], place, engine="processes", workers=2).failed == []
    trained, made = carry_out(plain, place), carry_out(refined, place)
    assert made["result"] == trained["result"]
    assert made["seconds"] > trained["seconds"]
    weights = [(place.encoder(cell) / "model.safetensors").read_bytes() for cell in (plain, refined)]
    assert weights[0] != weights[1]
    assert len(list(place.runs.glob("cmsc-*"))) == 1


def test_evaluations_wait_for_their_pretraining_in_one_task(place: Place) -> None:
    other = CMSC.model_copy(update={"seed": 1})
    cells: list[Cell] = [linear(), linear(other), linear(fraction=0.25), linear(None)]
    found = [task.cells for task in tasks(cells, place)]
    assert found == [(CMSC, cells[0], cells[2]), (other, cells[1]), (cells[3],)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_share_all_tasks_without_overlap(place: Place, count: int) -> None:
    cells: list[Cell] = [linear(CMSC.model_copy(update={"seed": seed})) for seed in range(5)]
    whole = {place.name(cell) for task in tasks(cells, place) for cell in task.cells}
    parts = [
        [place.name(cell) for task in tasks(cells, place, shard=(i, count)) for cell in task.cells]
        for i in range(count)
    ]
    assert sorted(name for part in parts for name in part) == sorted(whole)


def test_what_goes_into_a_cell_names_it(place: Place) -> None:
    cells: list[Cell] = [
        CMSC,
        CMSC.model_copy(update={"seed": 1}),
        CMSC.model_copy(update={"options": {"temperature": 0.5}}),
        linear(),
        linear(seed=1),
        linear(CMSC.model_copy(update={"options": {"temperature": 0.5}})),
    ]
    assert len({place.name(cell) for cell in cells}) == len(cells)
    assert place.name(CMSC) == Place(place.stores, Path("elsewhere"), Path("other")).name(CMSC)


def test_a_cell_that_fails_is_told_and_the_others_are_done(place: Place) -> None:
    wrong = CMSC.model_copy(update={"options": {"temperature": -1}})
    done = run_grid([linear(wrong), linear(None)], place)
    assert done.finished == 1
    assert len(done.failed) == 2
    assert "temperature" in done.failed[0]
    assert "waits for cmsc" in done.failed[1]


def test_an_error_that_nobody_thought_of_ends_its_cell_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(cell: Cell, there: Place) -> None:
        if isinstance(cell, Pretraining):
            raise ZeroDivisionError("division by zero")
        carry_out(cell, there)

    monkeypatch.setattr("clocs.experiments.grid.carry_out", stumble)
    done = run_grid([linear(CMSC), linear(None)], place)
    assert done.finished == 1
    assert "unexpected ZeroDivisionError('division by zero')" in done.failed[0]


def test_cells_that_lack_something_are_left_out_and_told(place: Place) -> None:
    elsewhere = Evaluation(protocol="linear", start=None, dataset="chapman")
    twelve = linear(None, leads=12)
    done = run_grid([elsewhere, linear(None), twelve], place)
    assert (done.finished, done.failed) == (1, [])
    assert done.left == {"store of chapman": 1, FULL_DOWNLOADS: 1}


def test_what_another_process_has_in_hand_is_waited_for_and_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock of an open file is what another process would hold; it finishes the cell and lets go."""
    cells: list[Cell] = [linear(None), CMSC]
    (task, _) = tasks(cells, place)
    lock = place.runs / "in-hand" / place.name(cells[0])
    lock.parent.mkdir(parents=True)
    order: list[str] = []
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run_task(task) == Done(elsewhere=task)

        def through(done: Done) -> None:
            order.extend(done.names)
            if len(order) == 1:
                place.file(cells[0]).write_text("{}")
                fcntl.flock(file, fcntl.LOCK_UN)

        monkeypatch.setattr(module, "probe", None)
        assert run_grid(cells, place, progress=through).failed == []
    assert order == [place.name(CMSC), place.name(cells[0])]
    assert place.result(cells[0]) == {}


def test_the_time_left_is_what_cells_like_those_to_do_have_taken(place: Place) -> None:
    cells: list[Cell] = [CMSC.model_copy(update={"seed": seed}) for seed in range(5)]
    left = TimeLeft(tasks(cells, place), Costs(), workers=2)
    assert (left.cells, left.done) == (5, 0)
    for cell, seconds in zip(cells[:2], (100, 300), strict=True):
        place.file(cell).parent.mkdir(parents=True, exist_ok=True)
        place.file(cell).write_text(json.dumps({"seconds": seconds}))
        left.count(Done((place.name(cell),)))
    assert left.seconds == pytest.approx(3 * 200 / 2)
    left.count(Done(failed={place.name(cells[2]): "why"}))
    assert left.seconds == pytest.approx(2 * 200 / 2)
    assert left.done == 3


def test_presets_are_what_they_say(place: Place) -> None:
    released = pretrain_config(CMSC.model_copy(update={"preset": "released"}), place)
    paper = pretrain_config(CMSC.model_copy(update={"preset": "paper"}), place)
    assert (released.method["off_diagonals"], released.method["pairs"]) == ("one_triangle", "last")
    assert (paper.method["off_diagonals"], paper.method["pairs"]) == ("both", "all")
    assert (released.encoder["final_relu"], paper.encoder["final_relu"]) == (False, True)


def test_tables_have_the_papers_cells() -> None:
    """By hand: six methods and random weights on two datasets; eight rows, six transfers, four random targets."""
    one, two = (list(find_experiment(name).cells(range(1))) for name in ("table1", "table2"))
    assert len(one) == 2 * 7
    assert len(two) == 6 * 7 + 4
    assert len(list(find_experiment("table1").cells(range(5)))) == 5 * len(one)
    kept = [cell for cell in one if chosen_cells("cmsc, random", "chapman")(cell)]
    assert [cell.label for cell in kept] == [
        *("linear-random-chapman-e128-f0.5-s0", "linear-cmsc-chapman-chapman-e128-f0.5-s0"),
    ]
    assert len({cell.model_dump_json() for cell in (*one, *two)}) == len(one) + len(two)


def test_options_that_are_not_used_leave_a_cell_its_name(place: Place) -> None:
    assert "config" not in told_of(CMSC)
    plain = told_of(linear())
    assert not {"config", "part"} & (plain.keys() | plain["start"].keys())
    assert told_of(linear(part="validation"))["part"] == "validation"
    assert place.name(linear(config={"solver": "adam"})) != place.name(linear())


def test_a_search_never_opens_the_test_part(place: Place) -> None:
    assert {cell.part for cell in search(range(2)) if isinstance(cell, Evaluation)} == {"validation"}
    carry_out(CMSC, place)
    found = carry_out(linear(part="validation"), place)["result"]
    assert "test" not in found
    assert found["rows"].keys() == {"train", "validation"}


def test_what_leaks_is_measured_and_marked(place: Place) -> None:
    apart = CMSC.model_copy(update={"config": {"split": "apart"}})
    carry_out(apart, place)
    with pytest.raises(LeakError):
        carry_out(linear(apart), place)
    found = carry_out(linear(apart, config={"leaks": "measured"}), place)["result"]
    assert found["contract"]["leaks"] > 0


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'table1'"):
        find_experiment("tabel1")
    for text in ("2/2", "a/b", "1", "-1/3"):
        with pytest.raises(ConfigError, match="i/n"):
            parse_shard(text)
    assert parse_shard("1/3") == (1, 3)
    assert {"table1", "table2", "figure4", "released"} <= set(EXPERIMENTS)


def test_distances_and_learning_curves_are_kept(place: Place) -> None:
    carry_out(CMSC, place)
    apart = Evaluation(protocol="distances", start=CMSC, dataset="synthetic", preset="recommended", part="validation")
    found = carry_out(apart, place)["result"]["distances"]
    for kind in ("intra", "inter"):
        assert sum(found["histogram"][kind]) == found[kind]["pairs"] > 0
    told = {"preset": "recommended", "epochs": 2, "config": {"batch": 16}}
    tuned = Evaluation.model_validate({"protocol": "finetune", "start": CMSC, "dataset": "synthetic", **told})
    body = carry_out(tuned, place)
    assert len(body["curves"]["validation_auc"]) == 2
    assert isinstance(body["still_improving"], bool)
