"""One row of a benchmark: shapes of the result, and what may and may not change it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, mean_absolute_error, r2_score, roc_auc_score

from clocs.metrics.challenges import CinC2017
from clocs.metrics.pooling import pool, pool_truth
from clocs.metrics.replicates import Replicates, difference_interval
from clocs.metrics.task_scores import MIN_POSITIVES, score_task
from tests.metrics.cohorts import Bools, Floats, Ints


def make_part(seed: int, patients: int = 60, *, exclusive: bool = False) -> tuple[Bools, Floats, Ints]:
    """Return labels, probabilities and patients of two recordings per patient. The last class is rare."""
    random = np.random.default_rng(seed)
    patient = np.repeat(np.arange(patients), 2)
    if exclusive:
        truth = np.eye(4, dtype=bool)[np.minimum(random.integers(0, 40, len(patient)) // 13, 3)]
        truth[:4] = np.eye(4, dtype=bool)[3]
    else:
        truth = random.random((len(patient), 4)) < [0.5, 0.4, 0.3, 0.0]
        truth[:8, 3] = True
    probabilities = 1 / (1 + np.exp(1 - 2 * truth - random.normal(size=truth.shape)))
    return truth, probabilities, patient


def score(kind: Any = "multi-label", *, seed: int = 0, replicates: int = 20, **options: Any) -> dict[str, Any]:
    truth, scores, patients = make_part(seed, exclusive=kind == "multi-class")
    validation = make_part(99, exclusive=kind == "multi-class")[:2]
    given: dict[str, Any] = {"validation": validation, "replicates": replicates} | options
    return score_task(kind, truth, scores, patients, **given)


def test_a_multi_label_row_has_the_values_of_scikit_learn() -> None:
    truth, scores, patients = make_part(0)
    classes = ("a", "b", "c", "rare")
    row = score(classes=classes)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    pooled = pool(scores, patients)[1], pool_truth(truth, patients)[1]
    for name, values, labels in (("recording", scores, truth), ("patient", *pooled)):
        part = row[name]
        assert (part["rows"], part["patients"]) == (len(values), 60)
        predicted = values >= [part["classes"][label]["thresholds"][0] for label in classes]
        for metric, expected in {
            "auc": roc_auc_score(labels, values, average=None),
            "average_precision": average_precision_score(labels, values, average=None),
            "f1": f1_score(labels, predicted, average=None),
        }.items():
            found = [part["classes"][label][metric]["value"] for label in classes]
            assert found == pytest.approx(expected, abs=1e-12)
            assert part["macro"][metric]["value"] == pytest.approx(np.mean(expected), abs=1e-12)
            assert part["macro_common"][metric]["value"] == pytest.approx(np.mean(expected[:3]), abs=1e-12)
            assert part["macro"][metric]["low"] < part["macro"][metric]["value"] < part["macro"][metric]["high"]
        positives = [part["classes"][label]["positives"] for label in classes]
        assert positives == labels.sum(axis=0).tolist()
    assert row["recording"]["classes"]["rare"]["positives"] < MIN_POSITIVES
    assert row["recording"]["common_classes"] == 3
    assert row["untrained"] == [0]


def thresholds(row: dict[str, Any]) -> list[Any]:
    return [found["thresholds"] for found in row["recording"]["classes"].values()]


def test_a_planted_signal_of_the_test_part_does_not_change_thresholds() -> None:
    """Test scores that equal the labels change the AUC to 1 and no threshold. Validation scores change thresholds."""
    truth, scores, patients = make_part(0)
    validation = make_part(99)[:2]
    plain = score_task("multi-label", truth, scores, patients, validation=validation, replicates=2)
    planted = score_task("multi-label", truth, truth.astype(float), patients, validation=validation, replicates=2)
    assert planted["recording"]["macro"]["auc"]["value"] == 1
    assert thresholds(planted) == thresholds(plain)
    relabelled = score_task("multi-label", ~truth, scores, patients, validation=validation, replicates=2)
    assert thresholds(relabelled) == thresholds(plain)
    other = validation[0], validation[1] / 2
    assert thresholds(score_task("multi-label", truth, scores, patients, validation=other, replicates=2)) == [
        [found[0] / 2] for found in thresholds(plain)
    ]


def test_a_multi_class_row_has_a_confusion_matrix_and_a_challenge_score() -> None:
    truth, scores, _ = make_part(0, exclusive=True)
    names = ("Normal", "AF", "Other", "Noisy")
    row = score("multi-class", classes=names, challenge=CinC2017(names))
    confusion = np.array(row["recording"]["confusion"])
    assert confusion.sum(axis=1).tolist() == truth.sum(axis=0).tolist()
    assert row["recording"]["macro"]["accuracy"]["value"] == pytest.approx(confusion.trace() / confusion.sum())
    answers = scores.argmax(axis=1)
    each = f1_score(truth.argmax(axis=1), answers, average=None)
    assert row["recording"]["macro"]["argmax_f1"]["value"] == pytest.approx(each.mean(), abs=1e-12)
    assert row["recording"]["macro"]["cinc2017"]["value"] == pytest.approx(each[:3].mean(), abs=1e-12)
    assert "cinc2017" not in row["patient"]["macro"], "a patient may have several classes"
    with pytest.raises(ValueError, match="exactly one class"):
        score_task("multi-class", truth | truth[::-1], scores, np.arange(len(truth)))


def test_a_binary_row_takes_one_dimension() -> None:
    truth, scores, patients = make_part(0)
    validation = make_part(99)
    options: dict[str, Any] = {"validation": (validation[0][:, 0], validation[1][:, 0]), "replicates": 5}
    row = score_task("binary", truth[:, 0], scores[:, 0], patients, **options)
    expected = roc_auc_score(truth[:, 0], scores[:, 0])
    assert row["recording"]["macro"]["auc"]["value"] == pytest.approx(expected, abs=1e-12)
    assert list(row["recording"]["classes"]) == ["0"]
    with pytest.raises(ValueError, match="binary"):
        score_task("binary", truth, scores, patients, **options)


def test_a_regression_row() -> None:
    random = np.random.default_rng(0)
    age, patients = random.normal(60, 15, 80), np.repeat(np.arange(40), 2)
    predicted = age + random.normal(0, 8, 80)
    row = score_task("regression", age, predicted, patients, replicates=20)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["recording"]["macro"]["mae"]["value"] == pytest.approx(mean_absolute_error(age, predicted), abs=1e-12)
    means = [values.reshape(40, 2).mean(axis=1) for values in (age, predicted)]
    assert row["patient"]["macro"]["r2"]["value"] == pytest.approx(r2_score(*means), abs=1e-12)
    assert (row["recording"]["rows"], row["patient"]["rows"], row["patient"]["patients"]) == (80, 40, 40)
    assert "classes" not in row["recording"]


def test_untrained_classes_are_counted_and_have_an_auc_of_one_half() -> None:
    row = score(untrained=np.array([True, False, False, True]))
    found = list(row["recording"]["classes"].values())
    assert [each["auc"]["value"] == 0.5 for each in found] == [True, False, False, True]
    assert [each["thresholds"] for each in found if each["auc"]["value"] == 0.5] == [[None], [None]]
    assert row["untrained"] == [2]


def test_runs_are_averaged_and_widen_the_interval() -> None:
    """The second run, a draw of labels, has no positive of one class."""
    truth, scores, patients = make_part(0)
    validation_truth, validation_scores, _ = make_part(99)
    runs, validation_runs = [scores, scores[:, ::-1]], [validation_scores, validation_scores[:, ::-1]]
    untrained = np.array([[False] * 4, [False, True, False, False]])
    options: dict[str, Any] = {"replicates": 50, "patients": patients}
    both = score_task(
        "multi-label", truth, runs, validation=(validation_truth, validation_runs), untrained=untrained, **options
    )
    each = [
        score_task("multi-label", truth, run, validation=(validation_truth, known), untrained=mask, **options)
        for run, known, mask in zip(runs, validation_runs, untrained, strict=True)
    ]
    assert (both["runs"], both["untrained"]) == (2, [0, 1])
    for name in ("auc", "f1"):
        found = both["recording"]["macro"][name]
        alone = [row["recording"]["macro"][name] for row in each]
        assert found["value"] == pytest.approx(np.mean([item["value"] for item in alone]))
        assert found["high"] - found["low"] > max(item["high"] - item["low"] for item in alone)
    assert both["replicates"]["auc"] == [row["replicates"]["auc"][0] for row in each]
    with pytest.raises(ValueError, match="2 runs, got 1"):
        score_task("multi-label", truth, runs, validation=(validation_truth, validation_scores), **options)


def test_two_rows_can_be_compared_by_their_replicates() -> None:
    rows = [score(replicates=100, challenge=None), score(replicates=100, untrained=np.array([True] + [False] * 3))]
    sides = [[Replicates.from_dict(run) for run in row["replicates"]["auc"]] for row in rows]
    value = rows[0]["recording"]["macro"]["auc"]["value"] - rows[1]["recording"]["macro"]["auc"]["value"]
    found = difference_interval(value, *sides)
    assert 0 < found.low < value < found.high


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    truth, scores, patients = make_part(0)
    row = score_task("multi-label", truth, 3 * scores, patients, replicates=2)
    assert list(row["recording"]["macro"]) == ["auc", "average_precision"]
    assert row["recording"]["classes"]["0"]["thresholds"] is None
    with pytest.raises(ValueError, match="4 names of classes"):
        score_task("multi-label", truth, scores, patients, classes=("a", "b"))
    with pytest.raises(ValueError, match="untrained"):
        score_task("multi-label", truth, scores, patients, untrained=np.zeros(3, bool))
