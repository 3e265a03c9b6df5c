"""Rows of a task: label fractions, selections and features, on features with a known signal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions, evaluate_task
from clocs.store.store import Store
from clocs.store.task_targets import task_targets

QUICK = BenchmarkOptions(label_fractions=(0.1, 1.0), replicates=100)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("store") / "store"
    made = clocs.ingest("synthetic", None, folder, options={"num_records": 240, "leads": 1, "seconds": 5})
    clocs.split(made)
    return made


def features_of(store: Store, signal: float, seed: int = 0) -> dict[str, RecordingFeatures]:
    """Return six features: noise, and with a signal the classes of the rhythm."""
    random = np.random.default_rng(seed)
    truth = task_targets(store, "rhythm").truth.astype(np.float32)
    values = random.normal(size=(len(store), truth.shape[1] + 1)).astype(np.float32)
    values[:, : truth.shape[1]] += signal * truth
    return {"embedding": RecordingFeatures(values, np.ones(len(store), np.int64), ("II",))}


def test_a_row_for_each_fraction_and_selection(store: Store) -> None:
    targets = task_targets(store, "rhythm")
    rows = evaluate_task(features_of(store, 5.0), store, store.split(), targets, QUICK)
    assert [(row["label_fraction"], row["selection"]) for row in rows] == [
        (0.1, "validation"),
        (0.1, "cross-validation"),
        (1.0, "validation"),
    ]
    assert [len(row["num_labelled"]) for row in rows] == [3, 3, 1]
    train = int((targets.included & store.split().mask("train")).sum())
    assert rows[-1]["num_labelled"] == [train]
    assert rows[-1]["scores"]["recording"]["macro"]["auc"]["value"] > 0.95
    assert rows[-1]["dimension"] == 6


def test_features_without_signal_are_near_chance(store: Store) -> None:
    options = BenchmarkOptions(label_fractions=(1.0,), selections=("validation",), replicates=100)
    (row,) = evaluate_task(features_of(store, 0.0), store, store.split(), task_targets(store, "rhythm"), options)
    assert 0.3 < row["scores"]["recording"]["macro"]["auc"]["value"] < 0.7


def test_test_recordings_change_neither_model_nor_thresholds(store: Store) -> None:
    """A signal that only test recordings have must not be found."""
    targets, options = task_targets(store, "rhythm"), BenchmarkOptions(label_fractions=(1.0,), replicates=100)
    plain, planted = features_of(store, 1.0), features_of(store, 1.0)
    test = store.split().mask("test")
    planted["embedding"].values[test, -1] = 100 * targets.truth[test, 0]
    rows = [evaluate_task(each, store, store.split(), targets, options) for each in (plain, planted)]
    for before, after in zip(*rows, strict=True):
        assert before["strengths"] == after["strengths"]
        thresholds = [
            [row["scores"]["recording"]["classes"][name]["thresholds"] for name in targets.classes]
            for row in (before, after)
        ]
        assert thresholds[0] == thresholds[1]


def test_a_regression_is_scored_by_its_error(store: Store) -> None:
    targets = task_targets(store, "age")
    age = np.nan_to_num(targets.values).astype(np.float32)[:, None]
    features = {"embedding": RecordingFeatures(age, np.ones(len(store), np.int64), ("II",))}
    options = BenchmarkOptions(label_fractions=(1.0,), selections=("validation",), replicates=100)
    (row,) = evaluate_task(features, store, store.split(), targets, options)
    assert row["scores"]["recording"]["macro"]["mae"]["value"] < 0.1


def test_an_impossible_selection_is_stated(store: Store) -> None:
    options = BenchmarkOptions(label_fractions=(0.001,), selections=("cross-validation",), replicates=100)
    (row,) = evaluate_task(features_of(store, 5.0), store, store.split(), task_targets(store, "rhythm"), options)
    assert "cross-validation needs at least two labelled patients" in row["not_possible"]


def test_a_split_without_test_recordings_is_refused(tmp_path: Path) -> None:
    made = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 20, "leads": 1, "seconds": 5})
    split = clocs.split_by(made, "sex", train="female", validation="male")
    with pytest.raises(ConfigError, match="no recording in the test part"):
        evaluate_task(features_of(made, 1.0), made, split, task_targets(made, "rhythm"), QUICK)
