"""Stored replicates give the same intervals as the bootstrap."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import Bootstrap, bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.ranking import Bools, Floats
from clocs.metrics.regression import RegressionMetrics
from clocs.metrics.replicates import Replicates, difference_interval, mean_interval

Ints = npt.NDArray[np.int64]


def make_cohort(patients: int = 40) -> tuple[Bools, Floats, Floats, Ints]:
    random = np.random.default_rng(0)
    patient = np.repeat(np.arange(patients), 3)
    truth = np.eye(3, dtype=np.bool_)[patient % 3]
    first, second = (strength * truth + random.normal(size=truth.shape) for strength in (1.5, 0.8))
    return truth, first, second, patient


def draw(truth: Bools, scores: Floats | list[Floats], patient: Ints, replicates: int = 200) -> Bootstrap:
    runs = scores if isinstance(scores, list) else [scores]
    return bootstrap([ClassMetrics(truth, run, patient) for run in runs], replicates=replicates)


def stored(drawn: Bootstrap, name: str = "auc") -> list[Replicates]:
    """Return the replicates of each run, which were written to JSON and read again."""
    found = drawn.replicates(name)
    assert found is not None
    return [Replicates.from_dict(json.loads(json.dumps(run.as_dict(), allow_nan=False))) for run in found]


@pytest.mark.parametrize("name", ["auc", "average_precision"])
def test_the_interval_of_a_mean_equals_that_of_the_scores(name: str) -> None:
    truth, first, second, patient = make_cohort()
    drawn = draw(truth, [first, second], patient)
    expected = drawn.macro(name)
    found = mean_interval(expected.value, stored(drawn, name))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)
    both = drawn.macro(name, resample_runs=True)
    found = mean_interval(expected.value, stored(drawn, name), by_run=drawn.values[name].mean(axis=1).tolist())
    assert (found.low, found.high) == pytest.approx((both.low, both.high), abs=2e-6)
    assert both.high - both.low > expected.high - expected.low


def test_the_interval_of_a_difference_equals_that_of_the_scores() -> None:
    truth, first, second, patient = make_cohort()
    sides = [draw(truth, [scores, scores[:, ::-1].copy()], patient) for scores in (first, second)]
    expected, replicates = sides[0].difference(sides[1], "auc"), [stored(side) for side in sides]
    found = difference_interval(expected.value, *replicates)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)
    by_run = (sides[0].values["auc"] - sides[1].values["auc"]).mean(axis=1).tolist()
    both = sides[0].difference(sides[1], "auc", resample_runs=True)
    found = difference_interval(expected.value, *replicates, by_run=by_run)
    assert (found.low, found.high) == pytest.approx((both.low, both.high), rel=1e-4), "12 deviations of two runs"
    with pytest.raises(ConfigError, match="pairs of runs"):
        difference_interval(0.0, replicates[0], replicates[1][:1], by_run=by_run)


def test_errors_of_a_regression_have_symmetric_intervals() -> None:
    random = np.random.default_rng(0)
    values, patient = random.normal(size=60), np.arange(60)
    drawn = bootstrap(RegressionMetrics(values, values + random.normal(size=60), patient), replicates=100)
    (replicates,) = stored(drawn, "mae")
    assert replicates.half_pair is None
    expected = drawn.macro("mae")
    found = mean_interval(expected.value, [replicates])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-5)


def test_results_on_different_patients_cannot_be_compared() -> None:
    truth, first, _, patient = make_cohort()
    fewer = patient < 30
    sides = [draw(truth, first, patient), draw(truth[fewer], first[fewer], patient[fewer])]
    with pytest.raises(ConfigError, match="different draws of patients"):
        difference_interval(0.0, *map(stored, sides))
    with pytest.raises(ValueError, match="different draws of patients"):
        sides[0].difference(sides[1], "auc")


def test_a_class_that_is_too_rare_has_no_replicates() -> None:
    truth = np.zeros((12, 1), dtype=np.bool_)
    truth[0] = True
    scores = np.arange(12.0)[:, None]
    found = draw(truth, scores, np.arange(12), 3).replicates("auc")
    assert found is None or len(found[0].values) == 3
    assert draw(truth, scores, np.zeros(12, np.int64), 3).replicates("auc") is None


@pytest.mark.parametrize("values", [{}, {"codes": "%", "low": 0, "high": 1, "draws": "", "half_pair": 0}])
def test_invalid_replicates_are_rejected(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Invalid replicates"):
        Replicates.from_dict(values)
