"""Cells of the paper: what they compute, what they need, what they are like."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.experiments.status import Costs
from clocs.experiments.workspace import Workspace
from reproduction.cells import DEFAULT_RATES, EPOCHS, FULL_DOWNLOADS, AnyCell, Evaluation, Pretraining, parse_cell
from reproduction.experiments import EXPERIMENTS
from reproduction.search import search

CMSC = Pretraining(method="cmsc", dataset="chapman")


def changed(cell: Pretraining, **changes: object) -> Pretraining:
    return cell.model_copy(update=changes)


def tuned(**values: object) -> Evaluation:
    return Evaluation.model_validate({"protocol": "finetune", "start": None, "dataset": "cardiology", **values})


def work(cell: AnyCell) -> float:
    return cell.workload().amount


def test_a_description_is_read_back() -> None:
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells(range(1)):
            for part in (*cell.requires, cell):
                assert parse_cell(part.describe()).key == part.key


def test_the_workload_is_in_frames_of_the_paper() -> None:
    """By hand, from its tables 3 and 4."""
    assert work(CMSC) == pytest.approx(EPOCHS * 2 * 25_543 / 1000)
    assert work(changed(CMSC, dataset="physionet2020")) == pytest.approx(EPOCHS * 2 * 24_080 / 1000)
    assert work(changed(CMSC, method="simclr", dataset="physionet2020")) == pytest.approx(EPOCHS * 2 * 51_880 / 1000)
    assert work(changed(CMSC, leads=12)) == pytest.approx(3 * work(CMSC))
    both = changed(CMSC, extra_datasets=("physionet2020",))
    assert work(both) == pytest.approx(EPOCHS * 2 * (25_543 + 24_080) / 1000)
    assert work(changed(CMSC, config={"max_steps": 10, "batch_size": 50})) == 1
    assert work(changed(CMSC, max_epochs=0)) == 0
    assert work(tuned(label_fraction=0.25)) == pytest.approx(EPOCHS * 0.25 * 4_584 / 1000)
    assert work(tuned(leads=12)) == work(tuned())
    assert work(tuned(protocol="linear")) == pytest.approx(4.584)


def test_the_most_similar_cells_determine_the_cost() -> None:
    costs = Costs()
    assert costs.estimate(CMSC).seconds == pytest.approx(work(CMSC) * DEFAULT_RATES["pretraining"])
    costs.learn(changed(CMSC, method="cmlc", dataset="physionet2020", preset="recommended"), 4_000.0)
    assert costs.estimate(CMSC).basis == "same kind"
    assert costs.estimate(CMSC).seconds == pytest.approx(4_000 * 25_543 / 24_080)
    assert costs.estimate(changed(CMSC, dataset="physionet2020")).basis == "same dataset"
    assert costs.estimate(tuned()).basis == "default"
    costs.learn(CMSC, 1_500.0)
    assert costs.estimate(changed(CMSC, dataset="physionet2020")).basis == "same method and preset"
    assert costs.estimate(changed(CMSC, method="simclr", dataset="physionet2020")).basis == "same preset"
    assert costs.estimate(changed(CMSC, seed=2)).basis == "same method, dataset and preset"
    assert costs.estimate(changed(CMSC, preset="recommended")).basis == "same preset"
    costs = Costs()
    costs.learn(CMSC, 1_500.0)
    assert costs.estimate(changed(CMSC, preset="recommended")).basis == "same method and dataset"
    assert costs.estimate(changed(CMSC, max_epochs=2 * EPOCHS, leads=12)).seconds == pytest.approx(1_500 * 2 * 3)


def test_trials_of_the_search_do_not_affect_other_costs() -> None:
    costs = Costs()
    trial = next(search([0]))
    assert isinstance(trial, Evaluation)
    assert trial.start is not None
    costs.learn(trial.start, 500.0)
    assert costs.estimate(trial.start).seconds == pytest.approx(500)
    assert costs.estimate(changed(CMSC, dataset="physionet2020")).basis == "default"


def test_12_leads_need_a_store_with_all_leads(tmp_path: Path) -> None:
    twelve = changed(CMSC, dataset="synthetic", leads=12)
    for leads in (4, 12):
        folder = tmp_path / str(leads)
        clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"num_records": 20, "leads": leads}))
    found = [twelve.missing_inputs(Workspace(tmp_path / name, tmp_path, tmp_path)) for name in ("4", "12", "none")]
    assert found == [[FULL_DOWNLOADS], [], ["store of synthetic", FULL_DOWNLOADS]]


def test_single_lead_datasets_do_not_need_12_leads(tmp_path: Path) -> None:
    (tmp_path / "cardiology").mkdir()
    assert tuned(leads=12).missing_inputs(Workspace(tmp_path, tmp_path, tmp_path)) == []


def test_a_pre_training_needs_all_of_its_datasets(workspace: Workspace) -> None:
    both = changed(CMSC, dataset="synthetic", extra_datasets=("chapman", "ptbxl"))
    evaluation = Evaluation(protocol="linear", start=both, dataset="synthetic")
    for cell in (both, evaluation):
        assert cell.missing_inputs(workspace) == ["store of chapman", "store of ptbxl"]
