"""Coverage of intervals in simulated cohorts with a known AUC."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from clocs.core.seeds import generator
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.intervals import combined_interval
from clocs.metrics.ranking import Ranking
from tests.metrics.cohorts import auc_interval, make_cohort, true_auc


def coverage(
    cohorts: int, replicates: int, patients: int, frames: int, *, by_row: bool = False, **options: Any
) -> float:
    """Return the fraction of simulated cohorts in which the 95 % interval of the macro AUC covers the true value."""
    covered = []
    for number in range(cohorts):
        truth, scores, who = make_cohort(generator(number, "cohort"), patients, frames, **options)
        units = np.arange(len(who)) if by_row else who
        interval = auc_interval(truth, scores, units, replicates=replicates, seed=number)
        covered.append(interval.low <= true_auc(options.get("shift", 1.0)) <= interval.high)
    return float(np.mean(covered))


def test_intervals_over_patients_cover_the_true_value_and_those_over_rows_do_not() -> None:
    assert coverage(60, 60, 80, 8, shared=0.9, classes=1) >= 0.88
    assert coverage(60, 60, 80, 8, shared=0.9, classes=1, by_row=True) <= 0.7


@pytest.mark.slow
def test_a_95_percent_interval_covers_the_true_value_in_95_percent_of_cohorts() -> None:
    assert 0.93 <= coverage(1000, 400, 500, 3) <= 0.97


@pytest.mark.slow
def test_a_95_percent_difference_covers_the_true_value_in_95_percent_of_cohorts() -> None:
    """The second scores share part of the patient effect of the first, and have half of their shift."""
    covered = []
    for number in range(500):
        random = generator(number, "cohort")
        truth, first, who = make_cohort(random, 300, 3)
        second = 0.5 * truth + 0.8 * (first - truth) + 0.6 * random.normal(size=first.shape)
        sides = [bootstrap(ClassMetrics(truth, side, who), replicates=200, seed=number) for side in (first, second)]
        found = sides[0].difference(sides[1], "auc")
        covered.append(found.low <= true_auc(1.0) - true_auc(0.5) <= found.high)
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.slow
def test_near_one_the_logit_scale_has_a_higher_coverage_than_percentiles() -> None:
    """The cohorts have 50 patients and an AUC of 0.96. This is why intervals are not percentiles."""
    covered = []
    for number in range(500):
        truth, scores, who = make_cohort(generator(number, "cohort"), 50, 3, shift=2.5)
        interval = auc_interval(truth, scores, who, replicates=200, seed=number)
        ranking, random = Ranking(truth, scores), generator(number, "bootstrap")
        drawn = [ranking.auc(np.bincount(random.integers(0, 50, 50), minlength=50)[who]).mean() for _ in range(200)]
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        covered.append([interval.low <= true_auc(2.5) <= interval.high, low <= true_auc(2.5) <= high])
    logit, percentile = np.mean(covered, axis=0)
    assert logit >= 0.92
    assert percentile <= logit - 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("num_positives", "expected"), [(1, 0.18), (2, 0.71), (3, 0.85), (5, 0.93), (10, 0.92)])
def test_coverage_of_intervals_with_few_positives(num_positives: int, expected: float) -> None:
    """The expected values are in docs/reference/evaluation.md. With 400 cohorts, their standard error is about 0.02."""
    shift, random, cohorts = NormalDist().inv_cdf(0.8) * math.sqrt(2), np.random.default_rng(num_positives), 400
    truth = (np.arange(num_positives + 200) < num_positives)[:, None]
    num_covered = 0
    for number in range(cohorts):
        scores = random.normal(size=truth.shape) + shift * truth
        found = auc_interval(truth, scores, np.arange(len(truth)), replicates=200, seed=number)
        num_covered += found.low <= true_auc(shift) <= found.high
    assert num_covered / cohorts == pytest.approx(expected, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(("num_runs", "spread", "expected"), [(5, 0.5, 0.945), (5, 3.0, 0.94), (3, 3.0, 0.94)])
def test_coverage_of_intervals_over_patients_and_runs(num_runs: int, spread: float, expected: float) -> None:
    """Runs have normal effects, whose standard deviation is ``spread`` times that of the mean over patients."""
    random, covered, covered_by_patients = np.random.default_rng(num_runs), [], []
    for number in range(1000):
        by_run = random.normal() + spread * math.sqrt(num_runs) * random.normal(size=num_runs)
        replicates = by_run[:, None] + random.normal(size=400)
        both = combined_interval(by_run, replicates, None, seed=number)
        covered.append(both.low <= 0 <= both.high)
        covered_by_patients.append(abs(by_run.mean()) <= 1.96)
    assert np.mean(covered) == pytest.approx(expected, abs=0.025)
    assert np.mean(covered_by_patients) < np.mean(covered)
