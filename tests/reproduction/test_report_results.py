"""Finished cells: found by content, with the encoder that validation patients choose."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError, StoreError
from clocs.experiments.workspace import TABLE, CellTable
from reproduction.cells import Evaluation, Pretraining
from reproduction.experiments import linear
from reproduction.report.results import FinishedCell, Results
from reproduction.search import trial
from tests.reproduction.results_factory import DATA, write_cell, write_evaluation, write_results

CMSC = Pretraining(method="cmsc", dataset="chapman")
LINEAR = Evaluation(protocol="linear", start=CMSC, dataset="chapman")


def test_cells_are_found_by_content(tmp_path: Path) -> None:
    other = LINEAR.model_copy(update={"seed": 1, "start": CMSC.model_copy(update={"seed": 1})})
    results = Results(write_results(tmp_path, [LINEAR, other, trial("head")]))
    found = results.get(LINEAR)
    assert found is not None
    assert found.name.startswith(LINEAR.label)
    assert results.get(LINEAR.model_copy(update={"label_fraction": 0.25})) is None
    assert len(results.tested) == 2  # the trial was tested by validation patients


def test_seeds_of_a_cell_are_found(tmp_path: Path) -> None:
    results = Results(write_results(tmp_path, [linear("cmsc", "chapman", seed) for seed in (0, 2)]))
    assert list(results.seeds(partial(linear, "cmsc", "chapman"))) == [0, 2]
    assert results.seeds(partial(linear, "cmsc", "physionet2020")) == {}


# --- the encoder of a pre-training


def scored(validation: float, test: float) -> dict[str, Any]:
    return {"validation_auc": validation, "test": {"frame": {"auc": {"value": test}}}}


@pytest.mark.parametrize(
    ("kept", "epochs", "test"),
    [
        ({"5": scored(0.8, 0.6), "25": scored(0.75, 0.99)}, 5, 0.6),  # test patients do not choose
        ({"5": scored(0.6, 0.99), "25": scored(0.65, 0.99)}, None, 0.7),  # that of the lowest loss is the best
        ({"5": scored(0.7, 0.99)}, None, 0.7),  # as good as it
        ({"100": scored(0.8, 0.1), "25": scored(0.8, 0.2), "5": scored(0.7, 0.9)}, 25, 0.2),  # the first of equals
        ({}, None, 0.7),
    ],
)
def test_validation_patients_choose_the_encoder(kept: dict[str, Any], epochs: int | None, test: float) -> None:
    found = FinishedCell("cell", LINEAR, {"result": scored(0.7, 0.7), "by_epochs": kept})
    assert found.best_kept_epochs == epochs
    assert found.by_validation_auc().auc("frame")["value"] == test


def test_the_chosen_encoder_has_its_own_replicates(tmp_path: Path) -> None:
    """After 25 epochs it is much better than at the lowest loss."""
    write_evaluation(tmp_path, LINEAR, 1.0, {1: 0.1, 25: 4.0})
    found = Results(tmp_path).get(LINEAR)
    assert found is not None
    for level in ("frame", "recording"):
        means = [each.replicates[level].values.mean() for each in (found, found.by_validation_auc())]
        assert means[1] > means[0] + 0.05
    assert found.by_validation_auc().result == found.row["by_epochs"]["25"]


def test_without_kept_encoders_there_is_one_choice() -> None:
    found = FinishedCell("cell", LINEAR, {"result": {"test": {}}})
    assert found.by_validation_auc() is found


# --- what is rejected


def test_one_cell_on_two_stores_is_rejected(tmp_path: Path) -> None:
    for data in (DATA, {"chapman": ["f" * 64, "0" * 64]}):
        write_cell(tmp_path, CMSC, {"result": {}}, data)
    with pytest.raises(ConfigError, match="the same cell on other data; keep one"):
        Results(tmp_path)


@pytest.mark.parametrize(
    "row",
    [
        {"cell": {}},
        {"cell": {"kind": "nothing"}, "result": {}, "origin": {}},
        {"cell": {"kind": "pretraining", "method": "cmsc"}, "result": {}, "origin": {}},
        {"cell": {"kind": "pretraining", "method": "cmsc", "dataset": "chapman"}},
    ],
)
def test_an_invalid_row_is_rejected(tmp_path: Path, row: dict[str, Any]) -> None:
    CellTable(tmp_path / TABLE).append("wrong-cell", row)
    with pytest.raises(StoreError, match="wrong-cell is not a finished cell"):
        Results(tmp_path)


def test_a_folder_without_results_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"has no cells\.jsonl"):
        Results(tmp_path)
    assert Results(tmp_path, may_be_empty=True).finished == ()


def test_costs_are_those_of_the_finished_cells(tmp_path: Path) -> None:
    write_cell(tmp_path, CMSC, {"result": {}, "seconds": 700.0})
    write_cell(tmp_path, CMSC.model_copy(update={"seed": 1}), {"result": {}, "seconds": None})
    costs = Results(tmp_path).costs
    assert costs.estimate(CMSC.model_copy(update={"seed": 2})).seconds == pytest.approx(700)


def test_the_time_of_a_replaced_layer_includes_its_training(tmp_path: Path) -> None:
    refined = CMSC.model_copy(update={"pca": True})
    write_cell(tmp_path, refined, {"result": {}, "seconds": 3.0})
    assert Results(tmp_path).training_seconds(refined) is None
    write_cell(tmp_path, CMSC, {"result": {}, "seconds": 700.0})
    assert Results(tmp_path).training_seconds(refined) == 703.0
    assert Results(tmp_path).training_seconds(CMSC) == 700.0
