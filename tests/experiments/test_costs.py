"""What a cell will cost is what cells like it have cost, by the frames there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.files import canonical_json
from clocs.experiments.cells import EPOCHS, Evaluation, Pretraining, told_of
from clocs.experiments.costs import BASES, DEFAULTS, Costs, work
from clocs.experiments.search import search

CMSC = Pretraining(method="cmsc", dataset="chapman")


def changed(cell: Pretraining, **changes: object) -> Pretraining:
    return cell.model_copy(update=changes)


def tuned(**told: object) -> Evaluation:
    return Evaluation.model_validate({"protocol": "finetune", "start": None, "dataset": "cardiology", **told})


def test_work_is_counted_in_the_papers_frames() -> None:
    """By hand, from its tables 3 and 4."""
    assert work(CMSC) == pytest.approx(EPOCHS * 2 * 25_543 / 1000)
    assert work(changed(CMSC, dataset="physionet2020")) == pytest.approx(EPOCHS * 2 * 24_080 / 1000)
    assert work(changed(CMSC, method="simclr", dataset="physionet2020")) == pytest.approx(EPOCHS * 2 * 51_880 / 1000)
    assert work(changed(CMSC, leads=12)) == pytest.approx(3 * work(CMSC))
    assert work(changed(CMSC, more=("physionet2020",))) == pytest.approx(EPOCHS * 2 * (25_543 + 24_080) / 1000)
    assert work(changed(CMSC, config={"steps": 10, "batch": 50})) == 1
    assert work(changed(CMSC, epochs=0)) == 0
    assert work(tuned(fraction=0.25)) == pytest.approx(100 * 0.25 * 4_584 / 1000)
    assert work(tuned(leads=12)) == work(tuned())
    assert work(tuned(protocol="linear")) == pytest.approx(4.584)


def test_the_most_similar_cells_decide() -> None:
    costs = Costs()
    estimate = costs.estimate(CMSC)
    assert estimate.seconds == pytest.approx(work(CMSC) * DEFAULTS["pretraining"])
    assert estimate.basis == "default"

    other = changed(CMSC, method="cmlc", dataset="physionet2020")
    costs.learn(other, 4_000.0)
    assert costs.estimate(CMSC).basis == "same kind"
    assert costs.estimate(CMSC).seconds == pytest.approx(4_000 * 25_543 / 24_080)
    assert costs.estimate(changed(CMSC, dataset="physionet2020")).basis == "same dataset"
    assert costs.estimate(tuned()).basis == "default"

    costs.learn(CMSC, 1_000.0)
    costs.learn(changed(CMSC, seed=1), 2_000.0)
    assert costs.estimate(changed(CMSC, seed=2)).seconds == pytest.approx(1_500)
    assert costs.estimate(changed(CMSC, seed=2)).basis == BASES[0]
    assert costs.estimate(changed(CMSC, preset="released")).basis == BASES[1]
    assert costs.estimate(changed(CMSC, epochs=2 * EPOCHS, leads=12)).seconds == pytest.approx(1_500 * 2 * 3)


def test_a_search_tells_nothing_of_other_cells() -> None:
    costs = Costs()
    trial = next(search([0]))
    assert isinstance(trial, Evaluation)
    assert trial.start is not None
    costs.learn(trial.start, 500.0)
    assert costs.estimate(trial.start).seconds == pytest.approx(500)
    assert costs.estimate(changed(CMSC, dataset="physionet2020")).basis == "default"


def test_results_are_learned_from_whatever_else_lies_there(tmp_path: Path) -> None:
    """Cells whose time nobody took, of versions to come, and broken ones say nothing."""
    cells = tmp_path / "cells"
    cells.mkdir()
    finished = {
        "one": {"cell": told_of(CMSC), "seconds": 700.0},
        "untimed": {"cell": told_of(changed(CMSC, seed=1)), "seconds": None},
        "evaluation": {"cell": told_of(tuned(start=CMSC)), "seconds": 60.0},
        "later": {"cell": {**told_of(CMSC), "of_later": 1}, "seconds": 1.0},
        "list": [],
    }
    for name, body in finished.items():
        (cells / f"{name}.json").write_bytes(canonical_json(body))
    (cells / "broken.json").write_bytes(b'{"cell"')
    costs = Costs.of_results(tmp_path)
    assert costs.estimate(changed(CMSC, seed=2)).seconds == pytest.approx(700)
    assert costs.estimate(tuned(start=CMSC, seed=2)).seconds == pytest.approx(60)
    assert Costs.of_results(tmp_path / "nowhere").estimate(CMSC).basis == "default"
