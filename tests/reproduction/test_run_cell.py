"""Cells of the paper are computed by the stages of the package, once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError, LeakError
from clocs.evaluation.probe import probe
from clocs.experiments.grid import run_grid, tasks
from clocs.experiments.workspace import CellTable, Workspace
from clocs.metrics.replicates import Replicates
from reproduction import run_cell as module
from reproduction.cells import AnyCell, Evaluation, Pretraining, paper_pretraining
from reproduction.experiments import EXPERIMENTS, cell_filter, find_experiment, variant
from reproduction.run_cell import REPLICATES_TABLE, best_kept_name, compute, pretrain_config, run_cell
from reproduction.search import search

CMSC = Pretraining(method="cmsc", dataset="synthetic", max_epochs=1, preset="recommended")


def linear(start: Pretraining | None = CMSC, **values: Any) -> Evaluation:
    return Evaluation(protocol="linear", start=start, dataset="synthetic", preset="recommended", **values)


def test_a_grid_is_computed_once(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[AnyCell] = [linear(), linear(label_fraction=0.25), linear(None)]
    assert len([cell for task in tasks(cells, workspace, run_cell) for cell in task.cells]) == 4
    assert run_grid(cells, workspace, run_cell).finished == 4
    monkeypatch.setattr(module, "pretrain", None)
    monkeypatch.setattr(module, "probe", None)
    again = run_grid(cells, workspace, run_cell)
    assert (again.finished, again.failed) == (0, [])
    found = compute(cells[0], workspace)
    assert 0 < found["result"]["test"]["frame"]["auc"]["value"] < 1
    assert found["result"]["contract"]["seen"]["train"] > 0
    assert {path.name for path in workspace.results.iterdir()} == {"cells.jsonl", "replicates.jsonl"}


def test_replicates_are_saved(workspace: Workspace) -> None:
    auc = compute(linear(None), workspace)["result"]["test"]["frame"]["auc"]
    row = CellTable(workspace.results / REPLICATES_TABLE).get(workspace.name(linear(None)))
    assert row is not None
    drawn = Replicates.from_dict(row["frame"])
    assert len(drawn.values) == 1000
    assert auc["low"] < drawn.values.mean() < auc["high"]


def test_all_kept_encoders_are_evaluated(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The validation AUC after two epochs is made the best; its replicates are saved besides those of the best loss."""
    start = CMSC.model_copy(update={"max_epochs": 2, "config": {"keep_epochs": (1, 2)}})
    compute(start, workspace)

    def told(encoder: Any, *given: Any, **options: Any) -> dict[str, Any]:
        return {**probe(encoder, *given, **options), "validation_auc": 0.9 if Path(encoder).name == "2" else 0.6}

    monkeypatch.setattr(module, "probe", told)
    found = compute(linear(start), workspace)
    assert {epochs: each["validation_auc"] for epochs, each in found["by_epochs"].items()} == {"1": 0.6, "2": 0.9}
    assert 0 < found["by_epochs"]["2"]["test"]["frame"]["auc"]["value"] < 1
    assert found["by_epochs"]["1"]["test"] != found["by_epochs"]["2"]["test"]
    name, table = workspace.name(linear(start)), CellTable(workspace.results / REPLICATES_TABLE)
    assert [each for each, _ in table.rows()] == [best_kept_name(name), name]
    drawn = table.get(best_kept_name(name))
    assert drawn is not None
    auc = found["by_epochs"]["2"]["test"]["recording"]["auc"]
    assert auc["low"] < Replicates.from_dict(drawn["recording"]).values.mean() < auc["high"]


def test_a_deleted_encoder_is_trained_again_for_a_new_evaluation(workspace: Workspace) -> None:
    compute(CMSC, workspace)
    shutil.rmtree(workspace.runs)
    with pytest.raises(ConfigError, match="compute its pre-training first"):
        run_cell(linear(), workspace)
    assert run_grid([linear()], workspace, run_cell).failed == []
    assert [name.split("-")[0] for name, _ in workspace.table.rows()] == ["cmsc", "linear"]


@pytest.mark.slow
def test_pca_uses_a_pretraining_that_is_computed_once(workspace: Workspace) -> None:
    plain = CMSC.model_copy(update={"config": {"encoder": {"name": "resnet", "width": 8}}})
    refined = plain.model_copy(update={"pca": True})
    assert run_grid([linear(refined), linear(plain)], workspace, run_cell, engine="processes", workers=2).failed == []
    assert compute(refined, workspace)["result"] == compute(plain, workspace)["result"]
    weights = [(cell.folder(workspace) / "model.safetensors").read_bytes() for cell in (plain, refined)]
    assert weights[0] != weights[1]
    assert len(list(workspace.runs.glob("cmsc-*"))) == 1


def test_invalid_options_affect_only_their_cells(workspace: Workspace) -> None:
    wrong = CMSC.model_copy(update={"options": {"temperature": -1}})
    done = run_grid([linear(wrong), linear(None)], workspace, run_cell)
    assert done.finished == 1
    assert "temperature" in done.failed[0]
    assert "requires cmsc" in done.failed[1]


def test_variants_change_the_loss(workspace: Workspace) -> None:
    start = variant("the loss of the released code", 0).start
    assert start is not None
    methods = [
        pretrain_config(each, workspace).method for each in (start, paper_pretraining("cmsc", "physionet2020", 0))
    ]
    assert [each["off_diagonals"] for each in methods] == ["one_triangle", "both"]
    assert [each["view_pairs"] for each in methods] == ["last", "all"]


def test_tables_have_the_papers_cells() -> None:
    """By hand: six methods, random weights and supervised on two datasets; eight rows, six transfers."""
    one, two = (list(find_experiment(name).cells(range(1))) for name in ("table1", "table2"))
    assert len(one) == 2 * 8
    assert len(two) == 6 * 8
    assert len({cell.key for cell in two}) == 6 * 7 + 4  # random weights on four datasets
    assert len(list(find_experiment("table1").cells(range(5)))) == 5 * len(one)
    kept = [cell for cell in one if cell_filter("cmsc, random", "chapman")(cell)]
    assert [cell.label for cell in kept] == [
        *("linear-random-chapman-e128-f0.5-s0", "linear-cmsc-chapman-chapman-e128-f0.5-s0"),
        "finetune-random-chapman-e128-f0.5-s0",
    ]


def test_the_queue_has_only_cells_of_the_tables_and_figures() -> None:
    parts = ("table1", "table2", "figure4", "figure6", "variants")
    known = {cell.key for name in parts for cell in find_experiment(name).cells(range(3))}
    assert {cell.key for cell in find_experiment("queue").cells(())} < known


def test_the_search_does_not_use_the_test_part(workspace: Workspace) -> None:
    assert {cell.part for cell in search(range(2)) if isinstance(cell, Evaluation)} == {"validation"}
    compute(CMSC, workspace)
    found = compute(linear(part="validation"), workspace)["result"]
    assert "test" not in found
    assert found["rows"].keys() == {"train", "validation"}


def test_leaks_are_counted_and_marked(workspace: Workspace) -> None:
    apart = CMSC.model_copy(update={"config": {"split": "apart"}})
    compute(apart, workspace)
    with pytest.raises(LeakError):
        compute(linear(apart), workspace)
    found = compute(linear(apart, config={"on_leak": "measure"}), workspace)["result"]
    assert found["contract"]["leaks"] > 0


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'table1'"):
        find_experiment("tabel1")
    assert {"table1", "table2", "figure4", "figure6", "variants", "queue"} <= set(EXPERIMENTS)


def test_distances_and_learning_curves_are_saved(workspace: Workspace) -> None:
    compute(CMSC, workspace)
    apart = Evaluation(protocol="distances", start=CMSC, dataset="synthetic", preset="recommended", part="validation")
    found = compute(apart, workspace)["result"]["distances"]
    for kind in ("intra", "inter"):
        assert sum(found["histogram"][kind]) == found[kind]["pairs"] > 0
    values = {"preset": "recommended", "max_epochs": 2, "config": {"batch_size": 16}}
    tuned = Evaluation.model_validate({"protocol": "finetune", "start": CMSC, "dataset": "synthetic", **values})
    row = compute(tuned, workspace)
    assert len(row["curves"]["validation_auc"]) == 2
    assert isinstance(row["still_improving"], bool)
