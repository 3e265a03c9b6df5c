"""Bootstrap intervals compared with a literal bootstrap and with Obuchowski's variance."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import average_precision_score, roc_auc_score

from clocs.core.seeds import generator
from clocs.metrics.bootstrap import Bootstrap, bootstrap, bootstrap_metrics
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.intervals import Difference, Interval
from clocs.metrics.resampling import MAX_DRAWS_PER_REPLICATE
from tests.metrics.cohorts import Bools, Floats, Ints, make_cohort


def draw(truth: Bools, scores: Any, patients: Ints, **options: Any) -> Bootstrap:
    """Return the bootstrap of one or several runs."""
    runs = scores if isinstance(scores, list) else [scores]
    return bootstrap([ClassMetrics(truth, run, patients) for run in runs], **options)


def difference_of(truth: Bools, first: Any, second: Any, patients: Ints, **options: Any) -> Difference:
    """Return the difference in macro AUC of two sides with the same rows."""
    return draw(truth, first, patients, **options).difference(draw(truth, second, patients, **options), "auc")


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
    found = draw(truth, scores, patients, replicates=50, seed=3)
    macro, classes = found.macro(name, level=0.9), found.classes(name, level=0.9)
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

    found = difference_of(truth, first, second, patients, replicates=60, seed=5)
    value, drawn = difference(slice(None)), [difference(rows) for rows in literal_draws(patients, 60, 5)]
    margin = 1.9599640 * np.std(drawn, ddof=1)
    assert [found.value, found.low, found.high] == pytest.approx([value, value - margin, value + margin], abs=1e-7)
    assert found.at_or_below_zero == np.mean(np.array(drawn) <= 0)
    assert 0 < found.at_or_below_zero < 1


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

    options = {"replicates": 40, "seed": 5}
    one_side = draw(truth, scores, patients, **options)
    found = one_side.difference(draw(truth_b, scores_b, patients_b, draws_of=one_side, **options), "auc")
    drawn = [difference(patients[rows[::2]]) for rows in literal_draws(patients, 40, 5)]
    value, margin = difference(np.arange(40)), 1.9599640 * np.std(drawn, ddof=1)
    assert [found.value, found.low, found.high] == pytest.approx([value, value - margin, value + margin], abs=1e-7)
    with pytest.raises(ValueError, match="same patients"):
        draw(truth_b[1:], scores_b[1:], patients_b[1:], draws_of=one_side)


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
    interval = draw(truth, scores, patients, replicates=600).classes("auc")[0]
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_a_class_lost_in_a_draw_does_not_change_the_classes_of_the_macro_average() -> None:
    """The rare class has a low AUC. Without it, the mean of a draw would increase from about 0.5 to 1."""
    patients = np.arange(60)
    truth = np.stack([patients % 2 == 0, patients < 2], axis=1)
    scores = np.stack([truth[:, 0] + 0.001 * patients, -1.0 * truth[:, 1] + 0.001 * patients], axis=1)
    truth[3, 0] = True  # the common class is not quite perfect
    found = draw(truth, scores, patients, replicates=300).macro("auc")
    lost = sum(not truth[rows][:, 1].any() for rows in literal_draws(patients, 300, 0))
    assert lost > 20, "the case does not occur"
    assert found.value == pytest.approx(0.5, abs=0.05)
    assert found.high < 0.6
    same = difference_of(truth, scores, scores[:, ::-1].copy(), patients, replicates=300)
    assert np.isfinite([same.low, same.high]).all()


def test_a_class_without_positives_is_ignored() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(4))
    absent = np.zeros((len(truth), 1), bool)
    wider = np.concatenate([truth, absent], axis=1), np.concatenate([scores, scores[:, :1]], axis=1)
    with_it, without = draw(*wider, patients, replicates=20), draw(truth, scores, patients, replicates=20)
    assert with_it.macro("auc") == without.macro("auc")
    assert with_it.classes("auc")[:2] == without.classes("auc")
    assert with_it.classes("auc")[2].as_dict() == {"value": None, "low": None, "high": None}


def ends(interval: Interval) -> tuple[float | None, float | None]:
    return interval.as_dict()["low"], interval.as_dict()["high"]


def test_intervals_that_cannot_be_estimated_have_no_ends() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(5))
    alone = draw(truth, scores, 0 * patients, replicates=20).macro("auc")
    assert alone.value == draw(truth, scores, patients, replicates=20).macro("auc").value
    assert ends(alone) == (None, None), "one patient"
    perfect = draw(truth, truth.astype(float), patients, replicates=20)
    assert perfect.macro("auc").value == 1
    assert ends(perfect.classes("auc")[0]) == ends(perfect.macro("average_precision")) == (None, None)
    constant = np.stack([truth[:, 0].astype(float), np.zeros(len(truth))], axis=1)
    same_in_every_draw = draw(truth, constant, patients, replicates=20).macro("auc")
    assert (same_in_every_draw.value, *ends(same_in_every_draw)) == (0.75, None, None)
    rare = np.eye(30, dtype=bool)
    hopeless = draw(rare, np.random.default_rng(0).random(rare.shape), np.arange(30), replicates=5)
    assert 0.63**30 * MAX_DRAWS_PER_REPLICATE < 1, "draws with all classes are nearly impossible"
    assert ends(hopeless.macro("auc")) == ends(hopeless.classes("auc")[0]) == (None, None)
    difference = difference_of(rare, rare * 1.0, rare * 2.0, np.arange(30), replicates=5)
    assert difference.as_dict() == {"value": 0.0, "low": None, "high": None, "at_or_below_zero": None}


def test_intervals_near_one_stay_below_one_and_contain_the_value() -> None:
    """Only one pair of frames is out of order, so many replicates are perfect."""
    patients = np.repeat(np.arange(30), 3)
    truth = (patients < 10)[:, None]
    scores = truth.astype(float)
    scores[[0, -1]] = [[0.4], [0.6]]
    found = draw(truth, scores, patients, replicates=200)
    assert found.classes("auc")[0].value == pytest.approx(1 - 1 / (30 * 60))
    for interval in (found.classes("auc")[0], found.macro("auc"), found.macro("average_precision")):
        assert 0.95 < interval.low < interval.value <= interval.high < 1


def test_equal_scores_have_a_difference_of_zero() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(7))
    found = difference_of(truth, scores, 2 * scores, patients, replicates=20)
    assert found.as_dict() == {"value": 0.0, "low": 0.0, "high": 0.0, "at_or_below_zero": 1.0}


def test_pairing_reduces_the_width_of_the_interval() -> None:
    random = np.random.default_rng(8)
    truth, scores, patients = make_cohort(random, 100)
    noisier = scores + 0.3 * random.normal(size=scores.shape)
    paired = difference_of(truth, scores, noisier, patients, replicates=200)
    alone = draw(truth, scores, patients, replicates=200).macro("auc")
    assert paired.high - paired.low < 0.6 * (alone.high - alone.low)
    back = difference_of(truth, noisier, scores, patients, replicates=200)
    assert [back.value, back.low, back.high] == pytest.approx([-paired.value, -paired.high, -paired.low])


def test_the_same_seed_gives_equal_intervals_and_another_seed_different_ones() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(9))
    runs = [scores, scores + np.random.default_rng(10).normal(size=scores.shape)]
    first, second, other = (draw(truth, runs, patients, replicates=30, seed=seed).macro("auc") for seed in (1, 1, 2))
    assert first == second
    assert first.value == other.value
    assert first.low != other.low
    assert json.loads(json.dumps(first.as_dict(), allow_nan=False)) == first.as_dict()


def test_invalid_options_are_rejected() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(0))
    with pytest.raises(ValueError, match="level"):
        draw(truth, scores, patients, replicates=2).macro("auc", level=1.0)
    with pytest.raises(ValueError, match="replicates"):
        draw(truth, scores, patients, replicates=1)
    with pytest.raises(ValueError, match="at least one run"):
        draw(truth, [], patients)
    with pytest.raises(ValueError, match="groups"):
        draw(truth, scores, patients[:-1])
    with pytest.raises(ValueError, match="different rows"):
        bootstrap([ClassMetrics(labels, scores, patients) for labels in (truth, ~truth)])


def test_blocks_of_replicates_have_the_draws_of_the_literal_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results do not depend on how many replicates are computed at once."""
    truth, scores, patients = make_cohort(np.random.default_rng(6))
    one_block = draw(truth, scores, patients, replicates=23)
    monkeypatch.setattr("clocs.metrics.resampling.WEIGHTS_PER_BLOCK", 5 * len(truth))
    several = draw(truth, scores, patients, replicates=23)
    assert one_block.draws == several.draws
    for name, values in one_block.replicate_values.items():
        np.testing.assert_allclose(several.replicate_values[name], values, rtol=0, atol=1e-14)


def test_runs_are_drawn_together_with_patients() -> None:
    """Each replicate is the mean of two of three runs, drawn with replacement, on the patients of the replicate."""
    random = np.random.default_rng(12)
    truth, scores, patients = make_cohort(random, 60)
    runs = [scores + noise * random.normal(size=scores.shape) for noise in (0.1, 1.0, 2.0)]
    drawn = draw(truth, runs, patients, replicates=40, seed=3)
    chosen, rows = generator(3, "runs").integers(0, 3, (2, 40)), literal_draws(patients, 40, 3)
    literal = [
        np.mean([mean_of_classes(roc_auc_score, truth[row], runs[run][row]) for run in chosen[:, index]])
        for index, row in enumerate(rows)
    ]
    by_run = [mean_of_classes(roc_auc_score, truth, run) for run in runs]
    spread = np.std([math.log(item / (1 - item)) for item in literal], ddof=1)
    fraction = float(np.var([math.log(item / (1 - item)) for item in by_run], ddof=1) / 3 / spread**2)
    margin, value = student.ppf(0.975, 2 / min(fraction, 1.0) ** 2) * spread, np.mean(by_run)
    center = math.log(value / (1 - value))
    expected = [value, *(1 / (1 + math.exp(-(center + side * margin))) for side in (-1, 1))]
    found = drawn.macro("auc", resample_runs=True)
    assert [found.value, found.low, found.high] == pytest.approx(expected, abs=1e-7)
    alone = draw(truth, runs[0], patients, replicates=40)
    assert alone.macro("auc", resample_runs=True) == alone.macro("auc")
    with pytest.raises(ValueError, match="same runs"):
        drawn.difference(draw(truth, runs[:2], patients, replicates=40, seed=3), "auc", resample_runs=True)


def test_runs_that_agree_add_nothing_to_the_interval_over_patients() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(13))
    drawn = draw(truth, [scores, scores, scores], patients, replicates=30)
    over_patients, over_both = drawn.macro("auc"), drawn.macro("auc", resample_runs=True)
    assert [over_both.low, over_both.high] == pytest.approx([over_patients.low, over_patients.high])
    assert drawn.difference(drawn, "auc", resample_runs=True).as_dict()["high"] == 0


def test_a_mean_over_some_classes_is_that_of_these_classes_alone() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(14), classes=3)
    some = np.array([True, False, True])
    found = draw(truth, scores, patients, replicates=30)
    alone = draw(truth[:, some], scores[:, some], patients, replicates=30)
    assert found.macro("auc", classes=some) == alone.macro("auc")
    assert found.macro("auc", classes=some).value != found.macro("auc").value


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
    found = draw(truth, random.random(truth.shape), np.arange(60), replicates=50)
    assert [np.isnan(interval.low) for interval in found.classes("auc")] == [True, False, True]
    assert [np.isnan(interval.high) for interval in found.classes("average_precision")] == [True, False, True]
    assert not any(np.isnan(interval.value) for interval in found.classes("auc"))
    assert not np.isnan(found.macro("auc").low)
