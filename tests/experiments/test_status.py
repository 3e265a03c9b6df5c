"""How a grid stands: counted by hand on a small one."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.experiments.carry_out import carry_out
from clocs.experiments.cells import Cell, Evaluation, Pretraining
from clocs.experiments.costs import Costs
from clocs.experiments.place import Place, kept_keys
from clocs.experiments.status import FULL_DOWNLOADS, needs, states, totals

CMSC = Pretraining(method="cmsc", dataset="synthetic", epochs=1, preset="recommended")


def linear(start: Pretraining | None, **told: object) -> Evaluation:
    return Evaluation.model_validate({"protocol": "linear", "start": start, "dataset": "synthetic", **told})


def test_cells_done_and_to_do_with_their_cost_and_needs(place: Place) -> None:
    costs = Costs()
    costs.learn(CMSC, 3600.0)
    costs.learn(linear(CMSC), 1800.0)
    carry_out(CMSC, place)
    wanted: list[Cell] = [
        linear(CMSC),
        linear(CMSC, fraction=0.25),
        linear(CMSC),
        linear(CMSC.model_copy(update={"seed": 1})),
        linear(CMSC.model_copy(update={"leads": 12}), leads=12),
        linear(CMSC, dataset="chapman"),
    ]
    found = totals(states(wanted, place, costs))
    assert (found["cells"], found["done"], found["to_do"], found["runnable"]) == (8, 1, 7, 4)
    assert found["needs"] == {FULL_DOWNLOADS: 2, "store of chapman": 1}
    assert found["runnable_core_hours"] == pytest.approx(1 + 3 * 0.5)
    # 12 leads are three times 4; Chapman has 25,543 frames, an unknown dataset is taken to have 10,000.
    assert found["core_hours"] == pytest.approx(2.5 + 3 * 1 + 3 * 0.5 + 0.5 * 2.5543)
    assert sum(found["estimated_from"].values()) == 7
    assert found["estimated_from"]["same kind"] == 1


def test_nothing_to_do_costs_nothing(place: Place) -> None:
    assert totals(states([], place, Costs()))["core_hours"] == 0
    carry_out(CMSC, place)
    found = totals(states([CMSC], place, Costs()))
    assert (found["to_do"], found["core_hours"], found["needs"]) == (0, 0, {})


def test_results_without_data_count_by_content(place: Place) -> None:
    carry_out(CMSC, place)
    elsewhere = Place(place.stores / "none", place.runs, place.results)
    wanted = [CMSC, CMSC.model_copy(update={"seed": 1})]
    assert totals(states(wanted, elsewhere, Costs()))["done"] == 0, "nothing is known to be kept"
    found = totals(states(wanted, elsewhere, Costs(), kept_keys(place.results)))
    assert (found["done"], found["to_do"], found["needs"]) == (1, 1, {"store of synthetic": 1})


def test_a_store_with_all_leads_is_all_that_12_leads_need(tmp_path: Path) -> None:
    twelve = CMSC.model_copy(update={"leads": 12})
    for leads in (4, 12):
        folder = tmp_path / str(leads)
        clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"records": 20, "leads": leads}))
    assert needs(twelve, Place(tmp_path / "4", tmp_path, tmp_path)) == [FULL_DOWNLOADS]
    assert needs(twelve, Place(tmp_path / "12", tmp_path, tmp_path)) == []
    assert needs(twelve, Place(tmp_path / "none", tmp_path, tmp_path)) == ["store of synthetic", FULL_DOWNLOADS]


def test_single_lead_datasets_never_need_12(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path, tmp_path)
    (tmp_path / "cardiology").mkdir()
    assert needs(linear(None, dataset="cardiology", leads=12), place) == []


def test_a_pre_training_needs_all_of_its_datasets(place: Place) -> None:
    both = CMSC.model_copy(update={"more": ("chapman", "ptbxl")})
    assert needs(both, place) == needs(linear(both), place) == ["store of chapman", "store of ptbxl"]
