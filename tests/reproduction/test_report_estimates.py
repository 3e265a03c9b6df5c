"""Means and differences: those of the scores."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

import pytest

from clocs.core.errors import ConfigError
from clocs.evaluation.results import differences
from clocs.experiments.workspace import TABLE
from clocs.metrics.intervals import Interval
from clocs.metrics.significance import Effect, patient_and_seed_effect
from reproduction.cells import LEVELS, Level
from reproduction.experiments import linear
from reproduction.report.estimates import Estimates, restrict_to_common_seeds
from reproduction.report.results import Results
from reproduction.run_cell import REPLICATES_TABLE
from tests.reproduction.results_factory import DATA, make_scores, usual_strength, write_results

CMSC, SIMCLR = (partial(linear, method, "chapman") for method in ("cmsc", "simclr"))


def difference(estimates: Estimates, level: Level) -> Effect | None:
    return estimates.difference(estimates.runs(CMSC), estimates.runs(SIMCLR), level)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """CMSC with seeds 0 to 2, SimCLR with 0 and 1."""
    seeds = [*(("cmsc", seed) for seed in range(3)), *(("simclr", seed) for seed in range(2))]
    return write_results(tmp_path / "results", [linear(method, "chapman", seed) for method, seed in seeds])


def test_one_seed_has_the_interval_of_its_cell(tmp_path: Path) -> None:
    results = Results(write_results(tmp_path, [CMSC(0)]))
    found = Estimates(results).auc(CMSC, "recording")
    (run,) = results.seeds(CMSC).values()
    assert found is not None
    assert {"value": found.value, "low": found.low, "high": found.high} == run.auc("recording")
    assert (found.deviation, found.by_seed) == (None, (found.value,))
    assert Estimates(results).auc(SIMCLR, "frame") is None


def test_several_seeds_have_a_mean_with_an_interval_of_their_scores(folder: Path) -> None:
    results = Results(folder)
    found = Estimates(results).auc(CMSC, "frame")
    values = [run.auc("frame")["value"] for run in results.seeds(CMSC).values()]
    assert found is not None
    assert found.by_seed == tuple(values)
    assert found.value == pytest.approx(fmean(value for value in values if value is not None))
    assert found.deviation == pytest.approx(stdev(found.by_seed))
    assert found.low < found.value < found.high


def test_a_difference_is_over_the_seeds_of_both_sides(folder: Path) -> None:
    """The bootstrap itself, and the test over seeds, have tests of their own."""
    results = Results(folder)
    cells = [[cell(seed) for seed in (0, 1)] for cell in (CMSC, SIMCLR)]
    sides = [[make_scores(cell, usual_strength(cell)) for cell in side] for side in cells]
    drawn = differences(*sides, replicates=8)
    for level in LEVELS:
        found = difference(Estimates(results), level)
        values = [[results.seeds(each)[seed].auc(level)["value"] for seed in (0, 1)] for each in (CMSC, SIMCLR)]
        by_seed = [float(a or 0) - float(b or 0) for a, b in zip(*values, strict=True)]
        expected = patient_and_seed_effect(Interval(fmean(by_seed), drawn[level].low, drawn[level].high), by_seed)
        assert found is not None
        assert (found.value, found.p_above) == pytest.approx((expected.value, expected.p_above), abs=1e-6)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-5)


def test_comparisons_use_common_seeds(folder: Path) -> None:
    runs = Estimates(Results(folder)).runs(CMSC)
    one = {seed: run for seed, run in runs.items() if seed == 0}
    assert restrict_to_common_seeds({"all": runs, "one": one, "none": {}}) == {"all": one, "one": one, "none": {}}
    assert restrict_to_common_seeds({"all": runs, "none": {}})["all"] == runs != one


def test_without_replicates_there_is_no_interval(folder: Path) -> None:
    (folder / REPLICATES_TABLE).unlink()
    found = difference(Estimates(Results(folder)), "frame")
    mean = Estimates(Results(folder)).auc(CMSC, "frame")
    assert found is not None
    assert mean is not None
    assert math.isfinite(found.value)
    assert [math.isnan(each) for each in (found.low, found.high, found.p_above, mean.low)] == [True] * 4


def test_different_patients_are_rejected(folder: Path) -> None:
    table = (folder / TABLE).read_text()
    old = f'"chapman":{json.dumps(DATA["chapman"])}'.replace(" ", "")
    first = next(line for line in table.splitlines() if '"protocol":"linear"' in line and '"simclr"' in line)
    assert old in first
    (folder / TABLE).write_text(table.replace(first, first.replace(DATA["chapman"][1], "0" * 64)))
    known = Estimates(Results(folder))
    with pytest.raises(ConfigError, match="tested on different stores or splits"):
        difference(known, "frame")
    with pytest.raises(ConfigError, match="tested on different stores or splits"):
        known.auc(SIMCLR, "frame")
