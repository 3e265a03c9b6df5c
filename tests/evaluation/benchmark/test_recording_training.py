"""Training on labelled recordings: batches, prediction, and a killed training that continues."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clocs.core.errors import ConfigError
from clocs.encoders import ResNet
from clocs.evaluation.benchmark import recording_training as module
from clocs.evaluation.benchmark.embedders import Mask
from clocs.evaluation.benchmark.recording_features import Ints
from clocs.evaluation.benchmark.recording_inputs import RecordingInputs
from clocs.evaluation.benchmark.recording_networks import RecordingClassifier
from clocs.evaluation.benchmark.recording_training import LabelledRecordings, TrainingOptions, predict
from clocs.metrics.ranking import auc
from clocs.signals.resampling import Floats

OPTIONS = TrainingOptions(max_epochs=3, learning_rate=0.01)


class Waves(RecordingInputs):
    """Three frames of two leads of each of 40 recordings, with another frequency for each class; the last has none."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.labels = np.arange(40) % 2
        phase = random.random((40, 3, 2, 1)) * 6
        time = np.arange(50) * np.where(self.labels, 0.9, 0.3)[:, None, None, None]
        self.frames = np.sin(time + phase).astype(np.float32)
        self.num_channels = 2
        self.drawn: list[int] = []

    @property
    def available(self) -> Mask:
        return np.arange(40) < 39

    def sample(self, records: Ints, random: np.random.Generator) -> tuple[Floats, Mask]:
        self.drawn.append(len(records))
        return self.frames[records, random.integers(0, 3, len(records))], np.ones((len(records), 2), np.bool_)

    def read_all(self, records: Ints, limit: int | None = None) -> tuple[Floats, Mask, Ints]:
        owner = np.repeat(np.arange(len(records))[self.available[records]], 3)
        frames = self.frames[records[owner], np.arange(len(owner)) % 3]
        return frames, np.ones(frames.shape[:2], np.bool_), owner


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> LabelledRecordings:
    monkeypatch.setattr(module, "MIN_STEPS", 5)
    inputs = Waves()
    truth = np.stack([inputs.labels == 0, inputs.labels == 1], axis=1)
    return LabelledRecordings(inputs, truth, np.arange(20), np.arange(20, 30))


def network() -> RecordingClassifier:
    torch.manual_seed(0)
    return RecordingClassifier(ResNet(in_channels=2, embedding_dim=4, width=4, depth=1, stem_stride=1), 2)


def train(model: RecordingClassifier, data: LabelledRecordings, runs: Path, **changes: Any) -> int:
    options = OPTIONS.model_copy(update=changes)
    return module.train_recordings(model, data, options, runs=runs, label="waves", origin={})


def test_logits_are_means_over_frames_and_a_recording_without_frames_has_the_bias() -> None:
    inputs, model = Waves(), network().eval()
    logits = predict(model, inputs, np.arange(40))
    with torch.no_grad():
        expected = torch.stack(
            [model.head(model.encoder(torch.from_numpy(frames))).mean(0) for frames in inputs.frames]
        )
        np.testing.assert_allclose(logits[:39], expected[:39].numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(logits[39], model.head.bias.detach().numpy())


def test_training_learns_and_its_batches_are_a_quarter_of_the_labels(data: LabelledRecordings, tmp_path: Path) -> None:
    model = network()
    epochs = train(model, data, tmp_path, max_epochs=6)
    assert 1 <= epochs <= 6
    assert set(data.inputs.drawn) == {5}  # type: ignore[attr-defined]
    logits = predict(model, data.inputs, np.arange(30, 39))
    assert auc(data.targets[30:39], logits).min() > 0.9


def test_a_killed_training_continues_and_a_finished_one_is_looked_up(
    data: LabelledRecordings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, killed, again = network(), network(), network()
    epochs = train(reference, data, tmp_path / "whole")
    sample, left = data.inputs.sample, [7]

    def dying(records: Ints, random: np.random.Generator) -> tuple[Floats, Mask]:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return sample(records, random)

    with monkeypatch.context() as patched:
        patched.setattr(data.inputs, "sample", dying)
        with pytest.raises(KeyboardInterrupt):
            train(killed, data, tmp_path / "killed")
    assert train(again, data, tmp_path / "killed") == epochs
    looked_up = copy.deepcopy(network())
    with monkeypatch.context() as patched:
        patched.setattr(module, "_RecordingLoop", None)
        assert train(looked_up, data, tmp_path / "killed") == epochs
    records = np.arange(39)
    for other in (again, looked_up):
        np.testing.assert_array_equal(predict(other, data.inputs, records), predict(reference, data.inputs, records))


def test_too_few_labelled_recordings_are_refused(data: LabelledRecordings, tmp_path: Path) -> None:
    few = LabelledRecordings(data.inputs, data.targets, np.arange(7), data.stopping)
    with pytest.raises(ConfigError, match="7 labelled recordings are too few"):
        train(network(), few, tmp_path)
