"""Bootstrap intervals compared with a literal bootstrap and with Obuchowski's variance."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from clocs.core.seeds import generator
from clocs.metrics.bootstrap import (
    MAX_DRAWS_PER_REPLICATE,
    Interval,
    bootstrap_intervals,
    bootstrap_metrics,
    paired_difference,
)
from tests.metrics.cohorts import Bools, Floats, Ints, make_cohort


def literal_draws(patients: Ints, replicates: int, seed: int) -> list[Ints]:
    """Return the rows of drawn patients for each replicate."""
    random, unique = generator(seed, "bootstrap"), np.unique(patients)
    return [
        np.concatenate(
            [np.flatnonzero(patients == unique[index]) for index in random.integers(0, len(unique), len(unique))]
        )
        for _ in range(replicates)
    ]


def mean_of_classes(score: Any, truth: Bools, scores: Floats) -> float:
    return float(np.mean([score(truth[:, k], scores[:, k]) for k in range(truth.shape[1])]))


@pytest.mark.parametrize(("name", "score"), [("auc", roc_auc_score), ("average_precision", average_precision_score)])
def test_intervals_equal_a_literal_bootstrap(name: str, score: Any) -> None:
    """Rows are copied and measured by scikit-learn. A 90 % interval has 1.645 standard deviations of the logits."""
    truth, scores, patients = make_cohort(np.random.default_rng(0))
    patients = 1000 - 7 * patients  # ids in another order
    found = bootstrap_intervals(truth, scores, patients, replicates=50, level=0.9, seed=3)
    macro, classes = getattr(found, f"macro_{name}"), getattr(found, name)
    for interval, columns in [(macro, [0, 1]), (classes[0], [0]), (classes[1], [1])]:
        value = mean_of_classes(score, truth[:, columns], scores[:, columns])
        drawn = [
            mean_of_classes(score, truth[rows][:, columns], scores[rows][:, columns])
            for rows in literal_draws(patients, 50, 3)
        ]
        margin = 1.6448536 * np.std([math.log(item / (1 - item)) for item in drawn], ddof=1)
        center = math.log(value / (1 - value))
        ends = [1 / (1 + math.exp(-(center + side * margin))) for side in (-1, 1)]
        assert [interval.value, interval.low, interval.high] == pytest.approx([value, *ends], abs=1e-7)


def test_a_difference_equals_a_literal_bootstrap_of_runs() -> None:
    random = np.random.default_rng(1)
    truth, scores, patients = make_cohort(random)
    first = [scores + random.normal(size=scores.shape) for _ in range(3)]
    second = [scores + 1.2 * random.normal(size=scores.shape) for _ in range(2)]

    def mean_of_runs(runs: list[Floats], rows: Any) -> float:
        return float(np.mean([mean_of_classes(roc_auc_score, truth[rows], run[rows]) for run in runs]))

    def difference(rows: Any) -> float:
        return mean_of_runs(first, rows) - mean_of_runs(second, rows)

    found = paired_difference(truth, first, second, patients, replicates=60, seed=5)
    value, drawn = difference(slice(None)), [difference(rows) for rows in literal_draws(patients, 60, 5)]
    margin = 1.9599640 * np.std(drawn, ddof=1)
    assert [found.value, found.low, found.high] == pytest.approx([value, value - margin, value + margin], abs=1e-7)
    assert found.at_or_below_zero == np.mean(np.array(drawn) <= 0)
    assert 0 < found.at_or_below_zero < 1
    assert paired_difference(truth, np.stack(first), second, patients, replicates=60, seed=5) == found


def test_sides_with_different_rows_use_the_same_draws_of_patients() -> None:
    """Compare two frames per patient with one frame, in another order."""
    random = np.random.default_rng(11)
    truth, scores, patients = make_cohort(random, frames=2)
    order = random.permutation(40)
    truth_b, patients_b = truth[::2][order], patients[::2][order]
    scores_b = 0.5 * truth_b + random.normal(size=truth_b.shape)

    def difference(drawn: Ints) -> float:
        rows, rows_b = (
            np.concatenate([np.flatnonzero(side == patient) for patient in drawn]) for side in (patients, patients_b)
        )
        first = mean_of_classes(roc_auc_score, truth[rows], scores[rows])
        return first - mean_of_classes(roc_auc_score, truth_b[rows_b], scores_b[rows_b])

    found = paired_difference(truth, scores, scores_b, patients, other=(truth_b, patients_b), replicates=40, seed=5)
    drawn = [difference(patients[rows[::2]]) for rows in literal_draws(patients, 40, 5)]
    value, margin = difference(np.arange(40)), 1.9599640 * np.std(drawn, ddof=1)
    assert [found.value, found.low, found.high] == pytest.approx([value, value - margin, value + margin], abs=1e-7)
    with pytest.raises(ValueError, match="same patients"):
        paired_difference(truth, scores, scores_b[1:], patients, other=(truth_b[1:], patients_b[1:]))


def obuchowski_error(truth: Bools, scores: Floats, patients: Ints) -> float:
    """Return the standard error of the AUC of clustered rows (Obuchowski, Biometrics 53 (1997) 567)."""
    wins = (scores[truth][:, None] > scores[~truth]) + 0.5 * (scores[truth][:, None] == scores[~truth])
    area, (m, n) = wins.mean(), wins.shape
    unique = np.unique(patients)
    positive = np.array([(wins.mean(axis=1) - area)[patients[truth] == patient].sum() for patient in unique])
    negative = np.array([(wins.mean(axis=0) - area)[patients[~truth] == patient].sum() for patient in unique])
    clusters = [len(set(patients[side].tolist())) for side in (truth, ~truth)]
    both = len(unique)
    s10 = clusters[0] / ((clusters[0] - 1) * m) * (positive**2).sum()
    s01 = clusters[1] / ((clusters[1] - 1) * n) * (negative**2).sum()
    s11 = both / (both - 1) * (positive * negative).sum()
    return math.sqrt(s10 / m + s01 / n + 2 * s11 / (m * n))


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_widths_agree_with_obuchowskis_variance(shared: float) -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(2), 300, 4, classes=1, shared=shared)
    truth ^= np.random.default_rng(3).random(truth.shape) < 0.1  # patients with rows of both kinds
    error = obuchowski_error(truth[:, 0], scores[:, 0], patients)
    interval = bootstrap_intervals(truth, scores, patients, replicates=600).auc[0]
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_a_class_lost_in_a_draw_does_not_change_the_classes_of_the_macro_average() -> None:
    """The rare class has a low AUC. Without it, the mean of a draw would increase from about 0.5 to 1."""
    patients = np.arange(60)
    truth = np.stack([patients % 2 == 0, patients < 2], axis=1)
    scores = np.stack([truth[:, 0] + 0.001 * patients, -1.0 * truth[:, 1] + 0.001 * patients], axis=1)
    truth[3, 0] = True  # the common class is not quite perfect
    found = bootstrap_intervals(truth, scores, patients, replicates=300)
    lost = sum(not truth[rows][:, 1].any() for rows in literal_draws(patients, 300, 0))
    assert lost > 20, "the case does not occur"
    assert found.macro_auc.value == pytest.approx(0.5, abs=0.05)
    assert found.macro_auc.high < 0.6
    same = paired_difference(truth, scores, scores[:, ::-1].copy(), patients, replicates=300)
    assert np.isfinite([same.low, same.high]).all()


def test_a_class_without_positives_is_ignored() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(4))
    absent = np.zeros((len(truth), 1), bool)
    wider = np.concatenate([truth, absent], axis=1), np.concatenate([scores, scores[:, :1]], axis=1)
    with_it = bootstrap_intervals(*wider, patients, replicates=20)
    without = bootstrap_intervals(truth, scores, patients, replicates=20)
    assert with_it.macro_auc == without.macro_auc
    assert with_it.auc[:2] == without.auc
    assert with_it.auc[2].as_dict() == {"value": None, "low": None, "high": None}


def ends(interval: Interval) -> tuple[float | None, float | None]:
    return interval.as_dict()["low"], interval.as_dict()["high"]


def test_intervals_that_cannot_be_estimated_have_no_ends() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(5))
    alone = bootstrap_intervals(truth, scores, 0 * patients, replicates=20)
    assert alone.macro_auc.value == bootstrap_intervals(truth, scores, patients, replicates=20).macro_auc.value
    assert ends(alone.macro_auc) == (None, None), "one patient"
    perfect = bootstrap_intervals(truth, truth.astype(float), patients, replicates=20)
    assert perfect.macro_auc.value == 1
    assert ends(perfect.auc[0]) == ends(perfect.macro_average_precision) == (None, None)
    constant = np.stack([truth[:, 0].astype(float), np.zeros(len(truth))], axis=1)
    same_in_every_draw = bootstrap_intervals(truth, constant, patients, replicates=20).macro_auc
    assert (same_in_every_draw.value, *ends(same_in_every_draw)) == (0.75, None, None)
    rare = np.eye(30, dtype=bool)
    hopeless = bootstrap_intervals(rare, np.random.default_rng(0).random(rare.shape), np.arange(30), replicates=5)
    assert 0.63**30 * MAX_DRAWS_PER_REPLICATE < 1, "draws with all classes are nearly impossible"
    assert ends(hopeless.macro_auc) == ends(hopeless.auc[0]) == (None, None)
    difference = paired_difference(rare, rare * 1.0, rare * 2.0, np.arange(30), replicates=5)
    assert difference.as_dict() == {"value": 0.0, "low": None, "high": None, "at_or_below_zero": None}


def test_intervals_near_one_stay_below_one_and_contain_the_value() -> None:
    """Only one pair of frames is out of order, so many replicates are perfect."""
    patients = np.repeat(np.arange(30), 3)
    truth = (patients < 10)[:, None]
    scores = truth.astype(float)
    scores[[0, -1]] = [[0.4], [0.6]]
    found = bootstrap_intervals(truth, scores, patients, replicates=200)
    assert found.auc[0].value == pytest.approx(1 - 1 / (30 * 60))
    for interval in (found.auc[0], found.macro_auc, found.macro_average_precision):
        assert 0.95 < interval.low < interval.value <= interval.high < 1


def test_equal_scores_have_a_difference_of_zero() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(7))
    found = paired_difference(truth, scores, 2 * scores, patients, replicates=20)
    assert found.as_dict() == {"value": 0.0, "low": 0.0, "high": 0.0, "at_or_below_zero": 1.0}


def test_pairing_reduces_the_width_of_the_interval() -> None:
    random = np.random.default_rng(8)
    truth, scores, patients = make_cohort(random, 100)
    noisier = scores + 0.3 * random.normal(size=scores.shape)
    paired = paired_difference(truth, scores, noisier, patients, replicates=200)
    alone = bootstrap_intervals(truth, scores, patients, replicates=200).macro_auc
    assert paired.high - paired.low < 0.6 * (alone.high - alone.low)
    back = paired_difference(truth, noisier, scores, patients, replicates=200)
    assert [back.value, back.low, back.high] == pytest.approx([-paired.value, -paired.high, -paired.low])


def test_the_same_seed_gives_equal_intervals_and_another_seed_different_ones() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(9))
    runs = [scores, scores + np.random.default_rng(10).normal(size=scores.shape)]
    first, second, other = (bootstrap_intervals(truth, runs, patients, replicates=30, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first.macro_auc.value == other.macro_auc.value
    assert first.macro_auc.low != other.macro_auc.low
    assert json.loads(json.dumps(first.as_dict(), allow_nan=False))["auc"][1] == first.auc[1].as_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"level": 1.0}, "level"), ({"replicates": 1}, "replicates"), ({"scores": []}, "at least one run")],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        bootstrap_intervals(**{"truth": truth, "scores": scores, "patients": patients, **options})
    with pytest.raises(ValueError, match="groups"):
        bootstrap_intervals(truth, scores, patients[:-1])


def test_any_metric_equals_a_literal_bootstrap_of_patients() -> None:
    """The metric is a fraction, which has a standard error in closed form."""
    positive = np.arange(400) < 100
    (found,) = bootstrap_metrics(lambda times: np.array([times @ positive / times.sum()]), 400, replicates=300, seed=4)
    drawn = [positive[rows].mean() for rows in literal_draws(np.arange(400), 300, 4)]
    margin = 1.9599640 * np.std([math.log(item / (1 - item)) for item in drawn], ddof=1)
    ends = [1 / (1 + math.exp(-(math.log(0.25 / 0.75) + side * margin))) for side in (-1, 1)]
    assert [found.value, found.low, found.high] == pytest.approx([0.25, *ends])
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * math.sqrt(0.25 * 0.75 / 400), rel=0.1)


def test_a_draw_with_an_undefined_metric_is_repeated() -> None:
    """One of eight patients is needed, so a third of the draws are repeated. The second metric is never defined."""

    def measure(times: Floats) -> Floats:
        is_defined = times[0] > 0
        return np.array([times[:4].sum() / 8 if is_defined else np.nan, np.nan])

    first, never = bootstrap_metrics(measure, 8, replicates=50)
    assert 0 < first.low < first.value == 0.5 < first.high < 1
    assert all(math.isnan(end) for end in (never.value, never.low, never.high))
    (alone,) = bootstrap_metrics(lambda times: np.array([0.5]), 1)
    assert (alone.value, math.isnan(alone.low)) == (0.5, True)
    with pytest.raises(ValueError, match="replicates"):
        bootstrap_metrics(measure, 8, replicates=1)


def test_a_class_of_very_few_patients_has_no_interval() -> None:
    """With one positive patient, simulated 95 % intervals cover the true value in 18 of 100 cohorts only."""
    random = np.random.default_rng(0)
    truth = np.zeros((60, 3), bool)
    for index, num_positives in enumerate((2, 3, 58)):
        truth[:num_positives, index] = True
    found = bootstrap_intervals(truth, random.random(truth.shape), np.arange(60), replicates=50)
    assert [np.isnan(interval.low) for interval in found.auc] == [True, False, True]
    assert [np.isnan(interval.high) for interval in found.average_precision] == [True, False, True]
    assert not any(np.isnan(interval.value) for interval in found.auc)
    assert not np.isnan(found.macro_auc.low)
