"""The results folder in the paper's terms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import canonical_json
from clocs.experiments.cells import Evaluation, Pretraining, told_of
from clocs.experiments.paper_grid import conditions
from clocs.experiments.paper_tables import cell_of
from clocs.experiments.report.reading import Finished, Results, condition, condition_of
from clocs.experiments.search import trial
from clocs.experiments.tables import EXPERIMENTS
from tests.experiments.results_factory import write_cell, write_evaluation, write_results

CMSC = Pretraining(method="cmsc", dataset="chapman")
LINEAR = Evaluation(protocol="linear", start=CMSC, dataset="chapman")


def finished(cell: Evaluation) -> Finished:
    return Finished("name", {"cell": told_of(cell), "result": {cell.part: {}}}, Path())


def test_a_cell_of_the_paper_is_read_back_as_its_condition() -> None:
    """The way there is that of ``paper_tables``, written apart from the way back."""
    assert len(conditions()) == 1266
    for each in conditions()[::7]:
        assert condition_of(finished(cell_of(each, seed=3))) == each


def test_our_experiments_are_conditions_of_the_paper_but_for_what_leaks_and_another_loss() -> None:
    unknown = []
    for name in ("table1", "table2", "figure3", "figure4", "figure5", "released", "leakage"):
        for cell in EXPERIMENTS[name].cells(range(1)):
            assert isinstance(cell, Evaluation)
            if condition_of(finished(cell)) is None:
                unknown.append((name, cell.config))
    assert unknown == [("released", {}), ("released", {}), ("leakage", {"leaks": "measured"})]


@pytest.mark.parametrize(
    "cell",
    [
        LINEAR.model_copy(update={"config": {"solver": "adam"}}),
        LINEAR.model_copy(update={"part": "validation"}),
        LINEAR.model_copy(update={"epochs": 50}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"epochs": 400})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"more": ("physionet2020",)})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"options": {"temperature": 0.5}})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"config": {"split": "apart"}})}),
        LINEAR.model_copy(update={"start": CMSC.model_copy(update={"preset": "released"})}),
        LINEAR.model_copy(
            update={"start": CMSC.model_copy(update={"options": {"perturbations": [{"name": "gaussian", "sigma": 9}]}})}
        ),
        trial("head"),
    ],
)
def test_what_the_paper_does_not_do_is_no_condition(cell: Evaluation) -> None:
    assert condition_of(finished(cell)) is None


def test_random_weights_by_either_way_are_one_condition() -> None:
    start = CMSC.model_copy(update={"epochs": 0})
    expected = condition("random", "chapman")
    assert condition_of(finished(LINEAR.model_copy(update={"start": None}))) == expected
    assert condition_of(finished(LINEAR.model_copy(update={"start": start}))) == expected


def test_cells_are_found_by_what_they_are(tmp_path: Path) -> None:
    other = LINEAR.model_copy(update={"seed": 1, "start": CMSC.model_copy(update={"seed": 1})})
    results = Results(write_results(tmp_path, [LINEAR, other, trial("head")]))
    found = results.of(LINEAR)
    assert found is not None
    assert found.name.startswith(LINEAR.label)
    assert results.of(LINEAR.model_copy(update={"fraction": 0.25})) is None
    runs = results.evaluations(condition("cmsc", "chapman", "chapman"))
    assert list(runs) == [0, 1]
    assert results.evaluations(condition("cmsc", "chapman", "chapman"), "released") == {}
    assert results.conditions == (condition("cmsc", "chapman", "chapman"),)
    assert len(results.judged) == 2  # the trial was judged by validation patients
    assert len(results.trained) == 3


def test_the_newest_code_wins(tmp_path: Path) -> None:
    for code, seconds in ((3, 30.0), (2, 20.0)):
        write_cell(tmp_path, CMSC, {"result": {"epochs": 100}, "seconds": seconds}, code)
    found = Results(tmp_path).of(CMSC)
    assert found is not None
    assert found.seconds == 30.0


def test_one_cell_on_two_stores_is_refused(tmp_path: Path) -> None:
    name = write_evaluation(tmp_path, LINEAR, 1.0)
    body = json.loads((tmp_path / "cells" / f"{name}.json").read_bytes())
    body["data"]["chapman"][0] = "f" * 64
    (tmp_path / "cells" / "other.json").write_bytes(canonical_json(body))
    with pytest.raises(ConfigError, match="the same cell on other data; keep one"):
        Results(tmp_path)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b'{"cell": {}}', b'{"cell": 1, "result": {}, "code": 1}', b"[" * 9000]
)
def test_a_file_that_is_no_cell_is_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "broken.json").write_bytes(raw)
    with pytest.raises(StoreError, match=r"broken\.json is no finished cell"):
        Results(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no folder 'cells'"):
        Results(tmp_path)
