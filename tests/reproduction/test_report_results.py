"""The results folder in the paper's terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError, StoreError
from clocs.experiments.workspace import TABLE, CellTable
from reproduction.cells import Evaluation, Pretraining
from reproduction.experiments import EXPERIMENTS
from reproduction.paper_tables import cell_of
from reproduction.report.results import Results, condition, condition_of
from reproduction.search import trial
from tests.reproduction.paper_grid import conditions
from tests.reproduction.results_factory import DATA, write_cell, write_results

CMSC = Pretraining(method="cmsc", dataset="chapman")
LINEAR = Evaluation(protocol="linear", start=CMSC, dataset="chapman")


def test_a_cell_of_the_paper_is_read_back_as_its_condition() -> None:
    """The way there is that of ``paper_tables``, written apart from the way back."""
    assert len(conditions()) == 1266
    for each in conditions()[::7]:
        assert condition_of(cell_of(each, seed=3)) == each


def test_experiments_are_conditions_of_the_paper_except_leaks_and_other_losses() -> None:
    unknown = []
    for name in ("table1", "table2", "figure3", "figure4", "figure5", "released", "leakage"):
        for cell in EXPERIMENTS[name].cells(range(1)):
            assert isinstance(cell, Evaluation)
            if condition_of(cell) is None:
                unknown.append((name, cell.config))
    assert unknown == [("released", {}), ("released", {}), ("leakage", {"on_leak": "measure"})]


@pytest.mark.parametrize(
    "cell",
    [
        LINEAR.model_copy(update={"config": {"solver": "adam"}}),
        LINEAR.model_copy(update={"part": "validation"}),
        LINEAR.model_copy(update={"max_epochs": 50}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"max_epochs": 400})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"extra_datasets": ("physionet2020",)})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"options": {"temperature": 0.5}})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"config": {"split": "apart"}})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"preset": "released"})}),
        LINEAR.model_copy(
            update={
                "start": CMSC.model_copy(
                    update={"options": {"augmentations": [{"name": "gaussian_noise", "sigma": 9}]}}
                )
            }
        ),
        trial("head"),
    ],
)
def test_other_experiments_have_no_condition(cell: Evaluation) -> None:
    assert condition_of(cell) is None


def test_random_weights_with_and_without_a_start_are_one_condition() -> None:
    start = CMSC.model_copy(update={"max_epochs": 0})
    expected = condition("random", "chapman")
    assert condition_of(LINEAR.model_copy(update={"start": None})) == expected
    assert condition_of(LINEAR.model_copy(update={"start": start})) == expected


def test_cells_are_found_by_content(tmp_path: Path) -> None:
    other = LINEAR.model_copy(update={"seed": 1, "start": CMSC.model_copy(update={"seed": 1})})
    results = Results(write_results(tmp_path, [LINEAR, other, trial("head")]))
    found = results.get(LINEAR)
    assert found is not None
    assert found.name.startswith(LINEAR.label)
    assert results.get(LINEAR.model_copy(update={"label_fraction": 0.25})) is None
    runs = results.evaluations(condition("cmsc", "chapman", "chapman"))
    assert list(runs) == [0, 1]
    assert results.evaluations(condition("cmsc", "chapman", "chapman"), "released") == {}
    assert results.conditions == (condition("cmsc", "chapman", "chapman"),)
    assert len(results.tested) == 2  # the trial was tested by validation patients
    assert len(results.trained) == 3


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
