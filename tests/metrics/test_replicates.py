"""Stored replicates give the intervals of the bootstrap itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import bootstrap_intervals, paired_difference
from clocs.metrics.ranking import Bools, Floats
from clocs.metrics.replicates import Replicates, difference_interval, draw_replicates, mean_interval


def cohort(patients: int = 40) -> tuple[Bools, Floats, Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    random = np.random.default_rng(0)
    people = np.repeat(np.arange(patients), 3)
    truth = np.eye(3, dtype=np.bool_)[people % 3]
    first, second = (strength * truth + random.normal(size=truth.shape) for strength in (1.5, 0.8))
    return truth, first, second, people


def stored(truth: Bools, scores: Floats, people: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Replicates:
    """Written to JSON and read again."""
    found = draw_replicates(truth, scores, people, replicates=200)
    assert found is not None
    return Replicates.from_dict(json.loads(json.dumps(found.as_dict())))


def test_the_interval_of_a_mean_is_that_of_the_scores() -> None:
    truth, first, second, people = cohort()
    expected = bootstrap_intervals(truth, [first, second], people, replicates=200).macro_auc
    found = mean_interval(expected.value, [stored(truth, each, people) for each in (first, second)])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)


def test_the_interval_of_a_difference_is_that_of_the_scores() -> None:
    truth, first, second, people = cohort()
    expected = paired_difference(truth, first, second, people, replicates=200)
    sides = [[stored(truth, each, people)] for each in (first, second)]
    found = difference_interval(expected.value, *sides)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)


def test_other_patients_cannot_be_compared() -> None:
    truth, first, _, people = cohort()
    fewer = people < 30
    sides = [[stored(truth, first, people)], [stored(truth[fewer], first[fewer], people[fewer])]]
    with pytest.raises(ConfigError, match="different draws of patients"):
        difference_interval(0.0, *sides)


def test_a_class_that_draws_lose_has_no_replicates() -> None:
    truth = np.zeros((12, 1), dtype=np.bool_)
    truth[0] = True
    found = draw_replicates(truth, np.arange(12.0)[:, None], np.arange(12), replicates=3)
    assert found is None or len(found.values) == 3
    everyone_one = draw_replicates(truth, np.arange(12.0)[:, None], np.zeros(12, np.int64), replicates=3)
    assert everyone_one is None


@pytest.mark.parametrize("wrong", [{}, {"codes": "%", "low": 0, "high": 1, "draws": "", "half_pair": 0}])
def test_what_is_not_replicates_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="not the replicates"):
        Replicates.from_dict(wrong)
