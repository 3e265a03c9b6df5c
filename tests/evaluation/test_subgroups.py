"""Metrics by the values of a column: the right recordings in each group, AUCs by scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from clocs.core.errors import ConfigError
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.subgroups import compute_subgroup_metrics
from clocs.store.store import Store
from tests.conftest import make_recording

COUNT = 80


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store of 80 recordings with columns of every type."""
    folder: Path = tmp_path_factory.mktemp("subgroups")
    signals = [make_recording(("I",), num_samples=2500, seed=seed).signal for seed in range(COUNT)]
    table: dict[str, list[Any]] = {
        "sex": ["M" if number % 4 else None for number in range(COUNT)],
        "age": [20.0 + number % 50 for number in range(COUNT)],
        "labels": ["AF;SR" if number % 2 else "AF" for number in range(COUNT)],
        "device": ["A" if number < 40 else "B" if number < 70 else None for number in range(COUNT)],
        "paced": [number < 35 for number in range(COUNT)],
        "order": list(range(COUNT)),
        "ward": [f"w{max(number - 40, 0):02d}" for number in range(COUNT)],
    }
    return Store.from_arrays(folder / "store", signals, sampling_rate=500, leads=("I",), table=table)


@pytest.fixture(scope="module")
def scores() -> ModelOutputs:
    """Return probabilities of two frames of every other recording and of all from 20 on."""
    random = np.random.default_rng(0)
    record = np.repeat([number for number in range(COUNT) if number >= 20 or number % 2], 2)
    truth = (random.random((COUNT, 2)) < 0.5)[record]
    values = (random.random((len(record), 2)) + 0.2 * truth).astype(np.float32)
    return ModelOutputs(values, truth, record, record, ("a", "b"))


def sizes(scores: ModelOutputs, store: Store, *columns: str) -> dict[str, int]:
    return {name: found["recordings"] for name, found in compute_subgroup_metrics(scores, store, columns).items()}


def test_groups_have_the_recordings_with_their_values(store: Store, scores: ModelOutputs) -> None:
    assert sizes(scores, store, "device") == {"device A": 30, "device B": 30, "device unknown": 10}
    assert sizes(scores, store, "paced") == {"paced false": 45, "paced true": 25}
    assert sizes(scores, store, "labels") == {"labels AF": 70, "labels SR": 40}
    assert sizes(scores, store, "sex") == {"male": 55, "unknown": 15}
    assert sizes(scores, store) == {}


def test_numbers_with_many_values_are_grouped_by_quarters(store: Store, scores: ModelOutputs) -> None:
    found = sizes(scores, store, "order")
    assert len(found) == 4
    assert sum(found.values()) == 70
    assert set(found.values()) <= {17, 18}
    assert list(found)[-1].endswith("to 79")


def test_rare_texts_are_joined(store: Store, scores: ModelOutputs) -> None:
    found = sizes(scores, store, "ward")
    assert found["ward w00"] == 31
    assert found["ward other"] == 20
    assert len(found) == 21


def test_the_auc_of_a_group_is_that_of_its_recordings(store: Store, scores: ModelOutputs) -> None:
    interval = compute_subgroup_metrics(scores, store, ("device",))["device B"]["auc"]
    members = range(40, 70)
    means = np.array([scores.values[scores.record == number].mean(0) for number in members])
    truth = np.array([scores.truth[scores.record == number].any(0) for number in members])
    assert interval["value"] == pytest.approx(roc_auc_score(truth, means, average="macro"))
    assert compute_subgroup_metrics(scores, store, ("device",))["device unknown"]["auc"] is None


def test_an_unknown_column_is_refused(store: Store, scores: ModelOutputs) -> None:
    with pytest.raises(ConfigError, match="Unknown column devices"):
        compute_subgroup_metrics(scores, store, ("devices",))
