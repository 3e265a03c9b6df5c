"""Encoders in use: measures are those of the commands, and shipped encoders are named by their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from clocs.experiments.workspace import Workspace
from clocs.similarity.patient_groups import group_patients
from clocs.similarity.scoring.audit import audit
from clocs.similarity.scoring.cohort import open_cohort
from clocs.similarity.scoring.scores import score_distances, score_similarity
from clocs.store.store import open_store
from reproduction import cells as module
from reproduction.cells import Evaluation, Measure, Pretraining
from reproduction.measures import MEASURES
from reproduction.report.encoders_page import groups_table, neighbours_table, neighbours_text
from reproduction.report.page import DASH
from reproduction.report.results import Results
from reproduction.run_cell import compute
from reproduction.shipped_encoders import CMSC_CHAPMAN, SMALL, grouped, in_use, neighbours
from tests.reproduction.results_factory import write_cell

SHIPPED = "cmsc-chapman"


def measure(protocol: Any, **told: Any) -> Evaluation:
    config = {"frames": "segments", **told}
    return Evaluation(protocol=protocol, start=None, shipped=SHIPPED, dataset="synthetic", config=config)


def test_every_measure_is_a_protocol() -> None:
    assert set(MEASURES) == set(get_args(Measure))


@pytest.mark.parametrize("protocol", MEASURES)
def test_a_measure_equals_its_command(workspace: Workspace, protocol: str) -> None:
    found = compute(measure(protocol), workspace)["result"]
    store, frames = workspace.store("synthetic"), "segments"
    if protocol == "neighbours":
        expected: Any = score_similarity(SHIPPED, store, frames=frames)["agreement"]
    elif protocol == "audit":
        expected = {key: value for key, value in audit(SHIPPED, store, frames=frames).items() if key != "notes"}
    elif protocol == "groups":
        expected = group_patients(open_cohort(SHIPPED, store, frames=frames)).as_dict()
    else:
        expected = score_distances(SHIPPED, store, part="test", frames=frames)[0].as_dict()
        found["distances"].pop("histogram")
    assert found[protocol] == expected
    assert set(found) == {protocol, "notes"}


def test_options_are_passed_to_a_measure(workspace: Workspace) -> None:
    found = compute(measure("groups", fine=True), workspace)["result"]["groups"]
    cohort = open_cohort(SHIPPED, workspace.store("synthetic"), frames="segments")
    assert found == group_patients(cohort, cluster_selection="leaf").as_dict()


def test_results_have_no_patient_ids(workspace: Workspace) -> None:
    patients = set(open_store(workspace.store("synthetic")).table(["patient_id"]).column(0).to_pylist())
    for protocol in MEASURES:
        told = json.dumps(compute(measure(protocol), workspace))
        assert not [patient for patient in patients if f'"{patient}"' in told]


def test_a_shipped_encoder_is_named_by_its_weights(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = measure("neighbours")
    before = workspace.name(cell)
    assert before.startswith("neighbours-cmsc-chapman-synthetic-")
    monkeypatch.setattr(module, "_weights", lambda shipped: f"other weights of {shipped}")
    assert workspace.name(cell) != before
    assert workspace.origin(cell)["weights"] == "other weights of cmsc-chapman"


def test_an_evaluation_has_one_encoder() -> None:
    start = Pretraining(method="cmsc", dataset="synthetic")
    with pytest.raises(ValidationError, match="either from cmsc-chapman or"):
        Evaluation(protocol="linear", start=start, shipped=SHIPPED, dataset="synthetic")


def test_other_seeds_would_be_other_encoders() -> None:
    assert list(in_use([1, 2])) == []
    asked = list(in_use(range(3)))
    assert len({cell.model_dump_json() for cell in asked}) == len(asked) > 0


def test_a_shipped_encoder_needs_no_pretraining(workspace: Workspace) -> None:
    cell = Evaluation(protocol="linear", start=None, shipped=SHIPPED, dataset="synthetic", preset="recommended")
    compute(cell, workspace)
    ((_, row),) = workspace.table.rows()
    assert row["origin"]["weights"]


# --- the page


def told(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


def test_neighbours_are_ranked_with_missing_results_last(tmp_path: Path) -> None:
    for encoder, value in ((CMSC_CHAPMAN, 0.5), (SMALL, 0.9)):
        found = {"macro": told(value), "micro": told(value - 0.1), "chance": {"macro": 0.25, "micro": 0.3}}
        body = {"neighbours": {**found, "classes": {}, "patients": 20}}
        write_cell(tmp_path, neighbours(encoder, "chapman"), {"result": body})
    results = Results(tmp_path)
    first, second, *others = neighbours_table(results, "chapman").rows
    assert [(row[0].text, row[1].text, row[1].detail) for row in (first, second)] == [
        ("`clocs-small`", "0.900", "0.890 to 0.910"),
        ("`cmsc-chapman`, 400 epochs", "0.500", "0.490 to 0.510"),
    ]
    assert {row[1].text for row in others} == {DASH}
    assert neighbours_text(results, "chapman").endswith("20 test patients; chance 0.250 macro, 0.300 micro:")
    assert neighbours_text(results, "physionet2020") == "PhysioNet 2020: no results yet."


def test_groups_are_described_by_enriched_labels(tmp_path: Path) -> None:
    group = {
        "number": -1,
        "patients": 1200,
        "shares": {"AF": 0.2, "SB": 0.5, "SR": 0.3, "ST": 0.0},
        "enrichment": {"AF": 1.2, "SB": 2.5, "SR": 1.04, "ST": None},
        "median_age": None,
        "female": 0.5,
    }
    body = {"groups": {"groups": [group], "stability": 0.654, "patients": 1200}}
    write_cell(tmp_path, grouped("chapman", fine=False), {"result": body})
    (row,) = groups_table(Results(tmp_path)).rows
    expected = ["Chapman", "none", "1,200", "SB 50 % (2.5), AF 20 % (1.2)", DASH, "50 %", "0.65"]
    assert [entry.text for entry in row] == expected
