"""Metrics of classes: untrained classes, paired differences of decisions, and what each metric needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.challenges import CinC2017
from clocs.metrics.class_metrics import CALIBRATION, EXCLUSIVE, RANKING, THRESHOLDED, ClassMetrics
from clocs.metrics.thresholds import Thresholds
from tests.metrics.cohorts import make_cohort
from tests.metrics.test_bootstrap import literal_draws

ALL = (*RANKING, *THRESHOLDED, *EXCLUSIVE, *CALIBRATION)


def test_an_untrained_class_has_an_auc_of_one_half_in_every_draw_and_is_never_predicted() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(0), classes=3)
    probabilities, untrained = 1 / (1 + np.exp(-scores)), np.array([False, True, False])
    thresholds = Thresholds.fit(truth, probabilities, untrained=untrained)
    options: dict[str, Any] = {"names": ALL, "thresholds": thresholds}
    found = bootstrap(ClassMetrics(truth, probabilities, patients, untrained=untrained, **options), replicates=20)
    trained = bootstrap(ClassMetrics(truth, probabilities, patients, **options), replicates=20)
    assert (found.replicate_values["auc"][0, 1] == 0.5).all()
    assert found.values["average_precision"][0, 1] == pytest.approx(truth[:, 1].mean())
    assert [found.values[name][0, 1] for name in THRESHOLDED] == [0, 0, 1]
    assert found.macro("auc").value == pytest.approx((trained.values["auc"][0, [0, 2]].sum() + 0.5) / 3)
    for name in ("auc", "average_precision", "f1"):
        assert found.values[name][0, [0, 2]].tolist() == trained.values[name][0, [0, 2]].tolist()


def test_the_difference_in_macro_f1_equals_a_literal_bootstrap() -> None:
    random = np.random.default_rng(1)
    truth, scores, patients = make_cohort(random)
    sides = [scores, scores + random.normal(size=scores.shape)]
    chosen = Thresholds(np.array([0.4, 0.6]))
    drawn = [
        bootstrap(ClassMetrics(truth, side, patients, names=("f1",), thresholds=chosen), replicates=40, seed=5)
        for side in sides
    ]
    predicted = [side >= chosen.values for side in sides]
    literal = [
        f1_score(truth[rows], predicted[0][rows], average="macro")
        - f1_score(truth[rows], predicted[1][rows], average="macro")
        for rows in [np.arange(len(truth)), *literal_draws(patients, 40, 5)]
    ]
    found, margin = drawn[0].difference(drawn[1], "f1"), 1.9599640 * np.std(literal[1:], ddof=1)
    expected = [literal[0], literal[0] - margin, literal[0] + margin]
    assert [found.value, found.low, found.high] == pytest.approx(expected, abs=1e-7)


def test_intervals_of_all_metrics_contain_their_value() -> None:
    random = np.random.default_rng(2)
    truth = np.eye(3, dtype=bool)[random.integers(0, 3, 120)]
    scores = np.exp(truth + random.normal(size=truth.shape))
    probabilities = scores / scores.sum(axis=1, keepdims=True)
    thresholds = Thresholds.fit(truth, probabilities)
    metrics = ClassMetrics(truth, probabilities, np.arange(120), names=ALL, thresholds=thresholds)
    drawn = bootstrap(metrics, replicates=50)
    assert tuple(drawn.values) == ALL
    assert drawn.values["accuracy"].shape == (1,)
    for name in ALL:
        intervals = [drawn.macro(name), *(drawn.classes(name) if name != "accuracy" else ())]
        for interval in intervals:
            assert 0 <= interval.low < interval.value < interval.high <= 1


def test_what_a_metric_needs_is_checked() -> None:
    truth, scores, patients = make_cohort(np.random.default_rng(3))
    with pytest.raises(ValueError, match="Unknown metrics: kappa"):
        ClassMetrics(truth, scores, patients, names=("kappa",))
    with pytest.raises(ValueError, match=r"Thresholds\.fit"):
        ClassMetrics(truth, scores, patients, names=("f1",))
    with pytest.raises(ValueError, match="untrained"):
        ClassMetrics(truth, scores, patients, untrained=np.zeros(3, bool))
    with pytest.raises(ValueError, match="probabilities"):
        ClassMetrics(truth, scores, patients, names=("brier",))(np.ones((len(truth), 1)))


def test_a_challenge_score_has_an_interval() -> None:
    random = np.random.default_rng(4)
    truth = np.eye(4, dtype=bool)[random.integers(0, 4, 100)]
    scores, challenge = truth + random.normal(size=truth.shape), CinC2017(("Normal", "AF", "Other", "Noisy"))
    metrics = ClassMetrics(truth, scores, np.arange(100), names=(), challenge=challenge)
    found = bootstrap(metrics, replicates=50).macro("cinc2017")
    assert found.value == pytest.approx(float(challenge(truth, metrics.highest)["cinc2017"]))
    assert found.low < found.value < found.high
