"""Tests of module outputs for the frames of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.evaluation.model_outputs import BATCH, ModelOutputs, compute_outputs
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store
from clocs.training.encoder_module import load_encoder_folder

SOME = np.arange(160) % 10 < 2
"""Both recordings of every fifth patient."""


@pytest.mark.parametrize("sampling_rate", [500, 250])
def test_outputs_have_labels_recordings_and_patients(sampling_rate: float, store: Store, trained: Path) -> None:
    """At 250 Hz frames are resampled."""
    module = load_encoder_folder(trained)[0]
    policy = FramePolicy(num_samples=2500, sampling_rate=sampling_rate)
    rows = compute_outputs(module, store, policy, SOME)
    frames = Frames(store, policy, records=SOME)
    with torch.no_grad():
        expected = module(torch.from_numpy(frames.gather(np.arange(len(frames)))))
    np.testing.assert_allclose(rows.values, expected.numpy(), atol=1e-5)
    assert rows.values.dtype == np.float32
    assert len(rows.values) == 32 * 4 * (2 if sampling_rate == 500 else 1)
    owners: dict[int, str] = {}
    for number in range(len(rows.values)):
        recording = store.recording(int(rows.record[number]))
        assert tuple(np.array(rows.classes)[rows.truth[number]]) == recording.labels[:1], "the rhythm"
        assert owners.setdefault(int(rows.patient[number]), recording.patient_id) == recording.patient_id
    assert len(set(owners.values())) == len(owners) == 16
    assert set(rows.record) == set(np.flatnonzero(SOME).tolist())
    assert not rows.multi_label


def test_the_module_does_not_change(store: Store, trained: Path) -> None:
    module = load_encoder_folder(trained)[0].train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    for train_mode in (False, True):
        compute_outputs(module, store, store.frame_policy("evaluation"), SOME, train_mode=train_mode)
        assert not any(part.training for part in module.modules())
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_train_mode_normalizes_by_the_batch(store: Store) -> None:
    """BatchNorm alone: the first rows are those of numpy's mean and standard deviation over them."""
    norm = nn.BatchNorm1d(2500)
    policy = store.frame_policy("evaluation")
    everyone = np.ones(160, bool)
    found = compute_outputs(nn.Sequential(nn.Flatten(), norm), store, policy, everyone, train_mode=True)
    values = store.frames("evaluation", records=everyone).gather(np.arange(BATCH))[:, 0].astype(np.float64)
    expected = (values - values.mean(0)) / np.sqrt(values.var(0) + norm.eps)
    np.testing.assert_allclose(found.values[:BATCH], expected, atol=1e-3)
    assert norm.running_mean is not None
    assert not norm.running_mean.any()
    plain = compute_outputs(nn.Sequential(nn.Flatten(), norm), store, policy, everyone)
    np.testing.assert_allclose(plain.values[:BATCH], values, atol=1e-3)


class Counter(nn.Module):
    """Counts its calls, whatever mode it is in."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, signals: Tensor) -> Tensor:
        self.calls += 1
        return signals[:, 0, :2]


class Learner(nn.Linear):
    """Changes its weights while it is used."""

    def forward(self, signals: Tensor) -> Tensor:
        self.weight.mul_(1.001)
        return super().forward(signals[:, 0])


@pytest.mark.parametrize("module", [Counter(), Learner(2500, 3)])
def test_a_module_that_changes_itself_raises_an_error(module: nn.Module, store: Store) -> None:
    with pytest.raises(AssertionError, match="changed while it was evaluated"):
        compute_outputs(module, store, store.frame_policy("evaluation"), SOME)


def test_a_part_without_frames_is_rejected(store: Store, trained: Path) -> None:
    module, policy = load_encoder_folder(trained)[0], store.frame_policy("evaluation")
    for given, records in ((policy, np.zeros(160, bool)), (FramePolicy(num_samples=9000, sampling_rate=500), SOME)):
        with pytest.raises(ConfigError, match="No recording of this part"):
            compute_outputs(module, store, given, records)


def test_rows_are_selected_with_their_labels() -> None:
    numbers = np.arange(5)
    rows = ModelOutputs(
        numbers[:, None].astype(np.float32), np.eye(5, dtype=bool), numbers, numbers * 10, tuple("abcde")
    )
    some = rows.select(np.array([3, 1]))
    assert some.values.tolist() == [[3.0], [1.0]]
    assert some.truth.argmax(1).tolist() == some.record.tolist() == [3, 1]
    assert some.patient.tolist() == [30, 10]
    other = some.with_values(np.zeros((2, 7), np.float32))
    assert other.values.shape == (2, 7)
    assert other.record is some.record


@pytest.mark.parametrize(("labels", "several"), [([1, 0], False), ([1, 1], True), ([0, 0], True)])
def test_a_row_without_or_with_two_classes_is_multi_label(labels: list[int], several: bool) -> None:
    truth = np.array([[True, False], labels], bool)
    assert (
        ModelOutputs(np.zeros((2, 1), np.float32), truth, np.arange(2), np.arange(2), ("a", "b")).multi_label is several
    )
