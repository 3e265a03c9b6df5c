"""Means and differences: those of the scores, kept, and never stale."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import canonical_json
from clocs.evaluation.compact_scores import load_compact, save_compact
from clocs.evaluation.results import differences
from clocs.experiments.cells import Evaluation, Pretraining
from clocs.experiments.report import estimates as module
from clocs.experiments.report.estimates import FILE, Estimates, over_shared_seeds
from clocs.experiments.report.reading import LEVELS, Results, condition
from clocs.metrics.bootstrap import Interval
from clocs.metrics.significance import over_patients_and_seeds
from tests.experiments.results_factory import make_scores, write_results

CMSC, SIMCLR = (condition(method, "chapman", "chapman") for method in ("cmsc", "simclr"))


def linear(method: str, seed: int) -> Evaluation:
    start = Pretraining(method=method, dataset="chapman", seed=seed)
    return Evaluation(protocol="linear", start=start, dataset="chapman", seed=seed)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """CMSC with seeds 0 to 2, SimCLR with 0 and 1."""
    monkeypatch.setattr(module, "REPLICATES", 20)
    seeds = [*(("cmsc", seed) for seed in range(3)), *(("simclr", seed) for seed in range(2))]
    return write_results(tmp_path / "results", [linear(*each) for each in seeds])


def test_one_seed_has_the_interval_of_its_cell(tmp_path: Path) -> None:
    results = Results(write_results(tmp_path, [linear("cmsc", 0)]))
    found = Estimates(results).auc(CMSC, "recording")
    (run,) = results.evaluations(CMSC).values()
    assert found is not None
    assert {"value": found.value, "low": found.low, "high": found.high} == run.auc("recording")
    assert (found.deviation, found.by_seed) == (None, (found.value,))
    assert Estimates(results).auc(SIMCLR, "frame") is None


def test_several_seeds_have_a_mean_with_an_interval_of_their_scores(folder: Path) -> None:
    results = Results(folder)
    found = Estimates(results).auc(CMSC, "frame")
    values = [run.auc("frame")["value"] for run in results.evaluations(CMSC).values()]
    assert found is not None
    assert found.by_seed == tuple(values)
    assert found.value == pytest.approx(fmean(value for value in values if value is not None))
    assert found.deviation == pytest.approx(stdev(found.by_seed))
    assert found.low < found.value < found.high


def test_a_difference_is_over_the_seeds_of_both_sides(folder: Path) -> None:
    """The bootstrap itself, and the test over seeds, have tests of their own."""
    results = Results(folder)
    sides = [[load_compact(results.evaluations(each)[seed].scores) for seed in (0, 1)] for each in (CMSC, SIMCLR)]
    drawn = differences(*sides, replicates=20)
    for level in LEVELS:
        found = Estimates(results).above(CMSC, SIMCLR, level)
        values = [[results.evaluations(each)[seed].auc(level)["value"] for seed in (0, 1)] for each in (CMSC, SIMCLR)]
        by_seed = [float(a or 0) - float(b or 0) for a, b in zip(*values, strict=True)]
        expected = over_patients_and_seeds(Interval(fmean(by_seed), drawn[level].low, drawn[level].high), by_seed)
        assert found is not None
        assert (found.value, found.p_above) == pytest.approx((expected.value, expected.p_above), abs=1e-4)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_what_is_compared_is_compared_over_the_same_seeds(folder: Path) -> None:
    runs = Estimates(Results(folder)).runs(CMSC)
    one = {seed: run for seed, run in runs.items() if seed == 0}
    assert over_shared_seeds({"all": runs, "one": one, "none": {}}) == {"all": one, "one": one, "none": {}}
    assert over_shared_seeds({"all": runs, "none": {}})["all"] == runs != one


def test_what_was_found_is_kept_and_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    first = Estimates(Results(folder), said.append)
    expected = [first.above(CMSC, SIMCLR, level) for level in LEVELS] + [first.auc(CMSC, "frame")]
    first.save()
    assert len(said) == 2  # both levels of a pair come together
    kept = (folder / FILE).read_bytes()
    monkeypatch.setattr(module, "load_compact", None)
    second = Estimates(Results(folder))
    assert [second.above(CMSC, SIMCLR, level) for level in LEVELS] + [second.auc(CMSC, "frame")] == expected
    second.save()
    assert (folder / FILE).read_bytes() == kept
    third = Estimates(Results(folder))
    third.auc(CMSC, "frame")
    third.save(sweep=False)
    assert (folder / FILE).read_bytes() == kept
    third.save()
    assert len(json.loads((folder / FILE).read_bytes())) == 1  # what nobody asks for any more goes


def test_other_scores_are_not_mistaken_for_these(folder: Path) -> None:
    said: list[str] = []
    first = Estimates(Results(folder))
    before = first.above(CMSC, SIMCLR, "frame")
    first.save()
    run = Results(folder).evaluations(CMSC)[0]
    save_compact(run.scores, make_scores(linear("cmsc", 0), 0.1))
    second = Estimates(Results(folder), said.append)
    after = second.above(CMSC, SIMCLR, "frame")
    assert len(said) == 1
    assert before is not None
    assert after is not None
    assert after.low != before.low


def test_without_scores_there_is_a_value_alone(folder: Path) -> None:
    for path in (folder / "scores").iterdir():
        path.unlink()
    found = Estimates(Results(folder)).above(CMSC, SIMCLR, "frame")
    mean = Estimates(Results(folder)).auc(CMSC, "frame")
    assert found is not None
    assert mean is not None
    assert math.isfinite(found.value)
    assert [math.isnan(each) for each in (found.low, found.high, found.p_above, mean.low)] == [True] * 4


def test_other_patients_are_refused(folder: Path) -> None:
    run = Results(folder).evaluations(SIMCLR)[0]
    path = folder / "cells" / f"{run.name}.json"
    body = json.loads(path.read_bytes())
    body["data"]["chapman"][1] = "0" * 64
    path.write_bytes(canonical_json(body))
    known = Estimates(Results(folder))
    with pytest.raises(ConfigError, match="judged by different patients"):
        known.above(CMSC, SIMCLR, "frame")
    with pytest.raises(ConfigError, match="judged by different patients"):
        known.auc(SIMCLR, "frame")


def test_damaged_intervals_are_told(folder: Path) -> None:
    (folder / FILE).write_text("{")
    with pytest.raises(StoreError, match=r"intervals\.json cannot be read.*Delete it"):
        Estimates(Results(folder))
