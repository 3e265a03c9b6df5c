"""Untrained controls and adapted PCA, fitted on recordings without their labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.encoders import ResNet
from clocs.evaluation.benchmark.embedders import ADAPTED, EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.random_kernels import sample_records
from clocs.evaluation.benchmark.recording_features import embed_frames, recording_policy
from clocs.evaluation.benchmark.unlabelled_fits import fit_adapted_pca, untrained_embedder
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store
from tests.evaluation.benchmark.conftest import Moments

TRAIN = np.arange(20) < 10
LEADS = ("I", "II", "V1")
POLICY = FramePolicy(num_samples=1000, sampling_rate=500)


def make_embedder(in_channels: int = 1) -> EncoderEmbedder:
    torch.manual_seed(0)
    policy = POLICY if in_channels == 1 else POLICY.model_copy(update={"leads": LEADS})
    return EncoderEmbedder("resnet", ResNet(in_channels=in_channels, width=4, depth=2), policy)


@pytest.mark.parametrize("in_channels", [1, 3])
def test_adapted_components_are_white_on_the_training_recordings(store: Store, in_channels: int) -> None:
    adapted = fit_adapted_pca(make_embedder(in_channels), store, TRAIN, num_components=5)
    policy = recording_policy(adapted, store, overlap=0.0)
    frames = Frames(store, policy, records=TRAIN, all_leads=True)
    items = np.arange(len(frames))
    values = embed_frames(adapted, frames.views(items)[:, 0], frames.lead_mask(items))[ADAPTED].reshape(-1, 5)
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(values.T, ddof=0), np.eye(5), atol=1e-2)


@pytest.mark.parametrize("in_channels", [1, 3])
def test_an_untrained_network_has_other_weights_and_statistics_of_the_data(store: Store, in_channels: int) -> None:
    trained = make_embedder(in_channels)
    untrained, other = (untrained_embedder(trained, store, TRAIN, seed=seed) for seed in (0, 1))
    again = untrained_embedder(trained, store, TRAIN, seed=0)
    assert untrained.identity == again.identity != other.identity
    assert untrained.name == "resnet, untrained"
    weights = [embedder.encoder.get_parameter("stem.weight") for embedder in (trained, untrained, other)]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    norm = untrained.encoder.get_submodule("stem_norm")
    assert isinstance(norm, nn.BatchNorm2d)
    assert not norm.training
    frames = Frames(store, recording_policy(untrained, store, overlap=0.0), records=TRAIN, all_leads=True)
    signals = torch.from_numpy(frames.views(np.arange(len(frames)))[:, 0])
    rows = signals.reshape(-1, in_channels, signals.shape[2])
    with torch.no_grad():
        padded = nn.functional.pad(rows, (7, 7))
        convolved = nn.functional.conv1d(padded, weights[1], stride=5)
    torch.testing.assert_close(norm.running_mean, convolved.mean((0, 2)), atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(norm.running_var, convolved.var((0, 2)), atol=1e-3, rtol=0.2)


def test_a_plain_module_is_reset(store: Store) -> None:
    module = nn.Sequential(nn.Conv1d(1, 3, 9), nn.BatchNorm1d(3), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    embedder = load_embedder(module, policy=POLICY)
    untrained = untrained_embedder(embedder, store, TRAIN)
    assert untrained.identity != embedder.identity
    assert not torch.equal(untrained.encoder.get_parameter("module.0.weight"), module.get_parameter("0.weight"))


class Scale(nn.Module):
    """A weight without a rule to draw it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        return self.scale * signals.mean(2)


def test_networks_without_an_untrained_control_are_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="no method reset_parameters"):
        untrained_embedder(load_embedder(Scale(), policy=POLICY), store, TRAIN)
    with pytest.raises(ConfigError, match="is no torch module"):
        untrained_embedder(Moments(), store, TRAIN)


def test_a_sample_is_part_of_the_recordings() -> None:
    records = np.arange(100) % 2 == 0
    chosen = sample_records(records, 10, 0)
    assert chosen.sum() == 10
    assert not (chosen & ~records).any()
    assert sample_records(records, 50, 0) is records
