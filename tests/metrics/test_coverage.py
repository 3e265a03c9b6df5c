"""How often intervals hold the truth, in cohorts of which it is known."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from clocs.core.seeds import generator
from clocs.metrics.bootstrap import (
    bootstrap_intervals,
    paired_difference,
)
from clocs.metrics.ranking import Ranking
from tests.metrics.cohorts import make_cohort, true_auc


def coverage(cohorts: int, replicates: int, patients: int, frames: int, *, by_row: bool = False, **given: Any) -> float:
    """Share of simulated cohorts whose 95 % interval of the macro AUC holds the truth."""
    held = []
    for number in range(cohorts):
        truth, scores, who = make_cohort(generator(number, "cohort"), patients, frames, **given)
        drawn = np.arange(len(who)) if by_row else who
        interval = bootstrap_intervals(truth, scores, drawn, replicates=replicates, seed=number).macro_auc
        held.append(interval.low <= true_auc(given.get("shift", 1.0)) <= interval.high)
    return float(np.mean(held))


def test_intervals_over_patients_hold_the_truth_and_those_over_rows_do_not() -> None:
    assert coverage(60, 60, 80, 8, shared=0.9, classes=1) >= 0.88
    assert coverage(60, 60, 80, 8, shared=0.9, classes=1, by_row=True) <= 0.7


@pytest.mark.slow
def test_a_95_percent_interval_holds_the_truth_in_95_percent_of_cohorts() -> None:
    assert 0.93 <= coverage(1000, 400, 500, 3) <= 0.97


@pytest.mark.slow
def test_a_95_percent_difference_holds_the_truth_in_95_percent_of_cohorts() -> None:
    """The second scores share part of the first ones' patient effect, and have half their shift."""
    held = []
    for number in range(500):
        random = generator(number, "cohort")
        truth, first, who = make_cohort(random, 300, 3)
        second = 0.5 * truth + 0.8 * (first - truth) + 0.6 * random.normal(size=first.shape)
        found = paired_difference(truth, first, second, who, replicates=200, seed=number)
        held.append(found.low <= true_auc(1.0) - true_auc(0.5) <= found.high)
    assert 0.93 <= np.mean(held) <= 0.97


@pytest.mark.slow
def test_near_one_the_logit_scale_holds_the_truth_more_often_than_percentiles() -> None:
    """Why the interval is not that of percentiles: 50 patients, an AUC of 0.96."""
    held = []
    for number in range(500):
        truth, scores, who = make_cohort(generator(number, "cohort"), 50, 3, shift=2.5)
        ours = bootstrap_intervals(truth, scores, who, replicates=200, seed=number).macro_auc
        ranking, random = Ranking(truth, scores), generator(number, "bootstrap")
        drawn = [ranking.auc(np.bincount(random.integers(0, 50, 50), minlength=50)[who]).mean() for _ in range(200)]
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        held.append([ours.low <= true_auc(2.5) <= ours.high, low <= true_auc(2.5) <= high])
    logit, percentile = np.mean(held, axis=0)
    assert logit >= 0.92
    assert percentile <= logit - 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("positives", "held"), [(1, 0.18), (2, 0.71), (3, 0.85), (5, 0.93), (10, 0.92)])
def test_how_often_intervals_of_few_positives_hold_the_truth(positives: int, held: float) -> None:
    """The shares that docs/evaluation.md tells; a share of 400 cohorts is itself known to some .04."""
    shift, random, cohorts = NormalDist().inv_cdf(0.8) * math.sqrt(2), np.random.default_rng(positives), 400
    truth = (np.arange(positives + 200) < positives)[:, None]
    inside = 0
    for number in range(cohorts):
        scores = random.normal(size=truth.shape) + shift * truth
        found = bootstrap_intervals(truth, scores, np.arange(len(truth)), replicates=200, seed=number).macro_auc
        inside += found.low <= true_auc(shift) <= found.high
    assert inside / cohorts == pytest.approx(held, abs=0.06)
