"""Tests of what each half of the validation patients calibrates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from clocs.datasets.dataset import SplitPolicy
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.inference.classifier import Classifier
from clocs.metrics.conformal import prediction_sets, set_thresholds
from clocs.publishing import fitting
from clocs.publishing.fitting import fit_classifier
from clocs.store.splits import make_split
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets, task_targets

DIMENSION = 4
COVERAGE = 0.6
"""Coverage that few patients suffice for."""


def recorded(targets: TaskTargets, store: Store) -> RecordingFeatures:
    """Return features that have the classes of recordings, with noise."""
    random = np.random.default_rng(0)
    signal = targets.truth @ random.normal(size=(len(targets.classes), 3 * DIMENSION))
    values = (signal + random.normal(size=signal.shape)).astype(np.float32)
    return RecordingFeatures(values, np.ones(len(store), np.int64), ("II",))


@pytest.fixture
def parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """The parts that a fit uses, with a gate that keeps all but the first recording it is shown."""
    found: dict[str, np.ndarray] = {}
    divide, shown = fitting._divide, list[str]()

    def remember(*arguments: Any) -> Any:
        made = divide(*arguments)
        found.update(vars(made))
        return made

    def passes(recording: object, heart_rates: object) -> bool:
        shown.append("")
        return len(shown) > 1

    monkeypatch.setattr(fitting, "_divide", remember)
    monkeypatch.setattr(fitting, "passes_gate", passes)
    monkeypatch.setattr(fitting, "set_thresholds", partial(set_thresholds, coverage=COVERAGE))
    monkeypatch.setattr(fitting, "heart_rate_limits", lambda *arguments: (40.0, 150.0))
    return found


def fit(store: Store, targets: TaskTargets, features: RecordingFeatures) -> Classifier:
    split = make_split(store, "halves", policy=SplitPolicy(train=0.2, validation=0.7, test=0.1))
    return fit_classifier(store, split, targets, {("II",): features}, "0" * 64, DIMENSION)[0]


def test_one_half_calibrates_sets_and_nothing_else(store: Store, parts: dict[str, np.ndarray]) -> None:
    """Other signals of that half change the thresholds, and nothing else does."""
    targets = task_targets(store, "rhythm")
    features = recorded(targets, store)
    made = fit(store, targets, features)
    patients, chosen = store.patient_codes()[0], parts["sets"]
    assert 20 <= chosen.sum() == len(np.unique(patients[chosen])), "one recording a patient"
    assert not np.isin(patients[parts["calibration"]], patients[chosen]).any()
    others = replace(features, values=np.where(chosen[:, None], -features.values, features.values))
    again = fit(store, targets, others)
    (first,), (second,) = made.card.lead_sets, again.card.lead_sets
    assert first.set_thresholds != second.set_thresholds
    assert first == replace(second, set_thresholds=first.set_thresholds)
    np.testing.assert_array_equal(made.weights[0].weight, again.weights[0].weight)


def test_thresholds_are_those_of_the_half_within_the_distance(store: Store, parts: dict[str, np.ndarray]) -> None:
    targets = task_targets(store, "rhythm")
    features = recorded(targets, store)
    made = fit(store, targets, features)
    rows = parts["sets"] & (made.distances(features.values, 0) <= made.card.lead_sets[0].max_distance)
    probabilities = made.probabilities(features.values[rows], 0).astype(np.float32)
    expected = set_thresholds(targets.truth[rows], probabilities, COVERAGE)
    np.testing.assert_allclose(made.card.lead_sets[0].set_thresholds, expected, atol=1e-6)
    assert prediction_sets(probabilities, expected)[targets.truth[rows]].mean() >= COVERAGE


def test_independent_findings_have_no_sets(store: Store, parts: dict[str, np.ndarray]) -> None:
    targets = task_targets(store, "sex")
    made = fit(store, targets, recorded(targets, store))
    assert made.card.lead_sets[0].set_thresholds == ()
    assert not parts["sets"].any()
    assert parts["calibration"].sum() == store.split("halves").mask("validation").sum()


def test_the_length_that_few_training_recordings_exceed(store: Store, parts: dict[str, np.ndarray]) -> None:
    """All have two frames, but for one of nine."""
    targets = task_targets(store, "rhythm")
    features = recorded(targets, store)
    num_frames = np.full(len(store), 2, np.int64)
    expected = fit(store, targets, replace(features, num_frames=num_frames)).card.max_frames
    num_frames[np.flatnonzero(parts["train"] & targets.included)[0]] = 9
    longest = fit(store, targets, replace(features, num_frames=num_frames)).card.max_frames
    assert (expected, longest) == (2, 9)
