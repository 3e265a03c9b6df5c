"""Rows of trained ways, on embeddings with a known signal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark import recording_training
from clocs.evaluation.benchmark.embedders import Embedder, Mask
from clocs.evaluation.benchmark.recording_training import TrainingOptions
from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions
from clocs.evaluation.benchmark.trained_evaluation import (
    TrainedWayInputs,
    evaluate_trained,
    training_options,
)
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.store import Store
from clocs.store.task_targets import task_targets

OPTIONS = BenchmarkOptions(label_fractions=(1.0,), selections=("validation",), replicates=100)
TRAINING = TrainingOptions(max_epochs=4, learning_rate=0.02)


class Spectrum(Embedder):
    """Logarithms of the first amplitudes of the spectrum."""

    def __init__(self) -> None:
        super().__init__("spectrum", FramePolicy(num_samples=500, sampling_rate=100), identity="1")

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        return np.log(np.abs(np.fft.rfft(frames[:, 0]))[:, 1:40] + 1e-3).astype(np.float32)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("store") / "store"
    made = clocs.ingest("synthetic", None, folder, options={"num_records": 120, "leads": 1, "seconds": 5})
    clocs.split(made)
    return made


@pytest.fixture(autouse=True)
def short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_training, "MIN_STEPS", 10)


@pytest.fixture
def attentive(store: Store, tmp_path: Path) -> TrainedWayInputs:
    return TrainedWayInputs.prepare("attentive", Spectrum(), store, store.split().mask("train"), tmp_path)


def test_a_row_for_each_selection_in_the_form_of_linear_rows(
    store: Store, attentive: TrainedWayInputs, tmp_path: Path
) -> None:
    targets, rows = task_targets(store, "rhythm"), []
    for selection in ("validation", "cross-validation"):
        options = OPTIONS.model_copy(update={"selections": (selection,)})
        rows += evaluate_trained(attentive, store, store.split(), targets, options, TRAINING, runs=tmp_path)
    assert [row["selection"] for row in rows] == ["validation", "cross-validation"]
    assert [row["num_labelled"] for row in rows] == [[targets.count(store.split().mask("train"))]] * 2
    assert rows[0]["scores"]["recording"]["macro"]["auc"]["value"] > 0.6
    assert {"auc", "average_precision", "f1", "calibration_error"} <= rows[0]["scores"]["recording"]["macro"].keys()


def test_a_regression_predicts_in_its_own_unit(store: Store, attentive: TrainedWayInputs, tmp_path: Path) -> None:
    targets = task_targets(store, "age")
    (row,) = evaluate_trained(attentive, store, store.split(), targets, OPTIONS, TRAINING, runs=tmp_path)
    assert 0 < row["scores"]["recording"]["macro"]["mae"]["value"] < 40


def test_test_recordings_change_nothing_but_their_own_scores(
    store: Store, attentive: TrainedWayInputs, tmp_path: Path
) -> None:
    targets, test = task_targets(store, "rhythm"), store.split().mask("test")
    (row,) = evaluate_trained(attentive, store, store.split(), targets, OPTIONS, TRAINING, runs=tmp_path / "a")
    targets.truth[test] = targets.truth[test][:, ::-1]
    (other,) = evaluate_trained(attentive, store, store.split(), targets, OPTIONS, TRAINING, runs=tmp_path / "b")
    weights = [next(tmp_path.glob(f"{name}/*/best/model.safetensors")).read_bytes() for name in "ab"]
    assert weights[0] == weights[1]
    assert row["epochs"] == other["epochs"]


def test_too_few_labels_are_reported_in_the_row(store: Store, attentive: TrainedWayInputs, tmp_path: Path) -> None:
    options = BenchmarkOptions(label_fractions=(0.05,), selections=("validation",), replicates=100)
    targets = task_targets(store, "rhythm")
    (row,) = evaluate_trained(attentive, store, store.split(), targets, options, TRAINING, runs=tmp_path)
    assert "too few" in row["not_possible"]


def test_an_embedder_that_is_no_module_cannot_be_fine_tuned(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'spectrum' is no torch module"):
        TrainedWayInputs.prepare("fine-tuned", Spectrum(), store, store.split().mask("train"), tmp_path)


def test_unknown_ways_and_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown way 'tuned'"):
        training_options("tuned", "clocs-small")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="resnot"):
        training_options("from scratch", "scratch:resnot")
