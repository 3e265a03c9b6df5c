"""Judgement: recordings and patients pooled by a literal loop, measures by scikit-learn."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import compute_metrics, outputs_by_level


def make_scores(seed: int, recordings: int = 30, rows: int = 150) -> ModelOutputs:
    """Probabilities of three classes; recordings in no order, with as many rows as chance gives, two a patient."""
    random = np.random.default_rng(seed)
    record = random.integers(0, recordings, rows) * 7
    truth = (random.random((recordings, 3)) < 0.4)[record // 7]
    raw = random.random((rows, 3)) + 0.3 * truth
    values = (raw / raw.sum(1, keepdims=True)).astype(np.float32)
    return ModelOutputs(values, truth, record, 1000 - record // 14, ("a", "b", "c"))


def literal(scores: ModelOutputs, level: str) -> dict[int, tuple[list[float], list[bool]]]:
    """Mean probabilities and all classes of each group, by dictionary."""
    groups = defaultdict(list)
    for row, number in enumerate(getattr(scores, level).tolist()):
        groups[number].append(row)
    found = {}
    for number, rows in groups.items():
        mean = [sum(float(scores.values[row, place]) for row in rows) / len(rows) for place in range(3)]
        found[number] = mean, [any(bool(scores.truth[row, place]) for row in rows) for place in range(3)]
    return found


@settings(max_examples=30)
@given(seed=st.integers(0, 2**30), recordings=st.integers(1, 40), rows=st.integers(1, 90))
def test_pooling_equals_a_loop_over_groups(seed: int, recordings: int, rows: int) -> None:
    scores = make_scores(seed, recordings, rows)
    found = dict(outputs_by_level(scores))
    assert found["frame"] is scores
    for level, field in (("recording", "record"), ("patient", "patient")):
        pool_outputs, expected = found[level], literal(scores, field)
        numbers = getattr(pool_outputs, field).tolist()
        assert numbers == sorted(expected)
        np.testing.assert_allclose(pool_outputs.values, [expected[number][0] for number in numbers], atol=1e-6)
        assert pool_outputs.truth.tolist() == [expected[number][1] for number in numbers]
        assert pool_outputs.patient.tolist() == (1000 - pool_outputs.record // 14).tolist()


def test_metrics_equal_scikit_learn() -> None:
    scores = make_scores(1)
    found = compute_metrics(scores, replicates=30)
    assert list(found) == ["frame", "recording", "patient"]
    for level, field in (("recording", "record"), ("patient", "patient")):
        means, truth = (np.array(column) for column in zip(*literal(scores, field).values(), strict=True))
        place, said = 1, found[level]["classes"]["b"]
        assert found[level]["auc"]["value"] == pytest.approx(roc_auc_score(truth, means), abs=1e-6)
        assert said["auc"]["value"] == pytest.approx(roc_auc_score(truth[:, place], means[:, place]), abs=1e-6)
        precision = average_precision_score(truth[:, place], means[:, place])
        assert said["average_precision"]["value"] == pytest.approx(precision, abs=1e-6)
        assert said["brier"] == pytest.approx(brier_score_loss(truth[:, place], means[:, place]), abs=1e-6)
        assert said["positives"] == truth[:, place].sum()
        assert found[level]["rows"] == len(means)
        assert found[level]["average_precision"]["value"] == pytest.approx(
            average_precision_score(truth, means), abs=1e-6
        )
        bins = np.minimum((means[:, place] * 10).astype(int), 9)
        gaps = [abs((means[bins == one, place] - truth[bins == one, place]).sum()) for one in range(10)]
        assert said["calibration_error"] == pytest.approx(sum(gaps) / len(means), abs=1e-6)
        each = [found[level]["classes"][name]["calibration_error"] for name in "abc"]
        assert found[level]["calibration_error"] == pytest.approx(np.mean(each))
    assert found["frame"]["auc"]["value"] == pytest.approx(roc_auc_score(scores.truth, scores.values))
    assert found["frame"]["rows"] == 150
    assert {found[level]["patients"] for level in found} == {len(set(scores.patient.tolist()))}


def test_intervals_are_over_patients_and_results_are_json() -> None:
    scores = make_scores(2)
    scores.truth[:, 2] = False
    found = compute_metrics(scores, replicates=50)
    for level in found:
        interval = found[level]["auc"]
        assert interval["low"] < interval["value"] < interval["high"]
    assert found["frame"]["classes"]["c"]["auc"] == {"value": None, "low": None, "high": None}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    everyone_one = ModelOutputs(scores.values, scores.truth, scores.record, 0 * scores.patient, scores.classes)
    assert compute_metrics(everyone_one, replicates=50)["frame"]["auc"]["low"] is None, "rows alone tell nothing"
