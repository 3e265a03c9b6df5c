"""Stored replicates give the same intervals as the bootstrap."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import bootstrap_intervals, paired_difference
from clocs.metrics.ranking import Bools, Floats
from clocs.metrics.replicates import Replicates, difference_interval, draw_replicates, mean_interval


def make_cohort(patients: int = 40) -> tuple[Bools, Floats, Floats, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    random = np.random.default_rng(0)
    patient = np.repeat(np.arange(patients), 3)
    truth = np.eye(3, dtype=np.bool_)[patient % 3]
    first, second = (strength * truth + random.normal(size=truth.shape) for strength in (1.5, 0.8))
    return truth, first, second, patient


def stored(truth: Bools, scores: Floats, patient: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Replicates:
    """Return replicates that were written to JSON and read again."""
    found = draw_replicates(truth, scores, patient, replicates=200)
    assert found is not None
    return Replicates.from_dict(json.loads(json.dumps(found.as_dict())))


def test_the_interval_of_a_mean_equals_that_of_the_scores() -> None:
    truth, first, second, patient = make_cohort()
    expected = bootstrap_intervals(truth, [first, second], patient, replicates=200).macro_auc
    found = mean_interval(expected.value, [stored(truth, scores, patient) for scores in (first, second)])
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)


def test_the_interval_of_a_difference_equals_that_of_the_scores() -> None:
    truth, first, second, patient = make_cohort()
    expected = paired_difference(truth, first, second, patient, replicates=200)
    sides = [[stored(truth, scores, patient)] for scores in (first, second)]
    found = difference_interval(expected.value, *sides)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-6)


def test_results_on_different_patients_cannot_be_compared() -> None:
    truth, first, _, patient = make_cohort()
    fewer = patient < 30
    sides = [[stored(truth, first, patient)], [stored(truth[fewer], first[fewer], patient[fewer])]]
    with pytest.raises(ConfigError, match="different draws of patients"):
        difference_interval(0.0, *sides)


def test_a_class_that_is_too_rare_has_no_replicates() -> None:
    truth = np.zeros((12, 1), dtype=np.bool_)
    truth[0] = True
    found = draw_replicates(truth, np.arange(12.0)[:, None], np.arange(12), replicates=3)
    assert found is None or len(found.values) == 3
    one_patient = draw_replicates(truth, np.arange(12.0)[:, None], np.zeros(12, np.int64), replicates=3)
    assert one_patient is None


@pytest.mark.parametrize("values", [{}, {"codes": "%", "low": 0, "high": 1, "draws": "", "half_pair": 0}])
def test_invalid_replicates_are_rejected(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="Invalid replicates"):
        Replicates.from_dict(values)
