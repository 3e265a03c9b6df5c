"""Embedders: folders, modules, ONNX files and adapters give the outputs of what they wrap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.encoders import CNN, Encoder, ResNet
from clocs.evaluation.benchmark.embedders import ADAPTED, EMBEDDING, EncoderEmbedder, load_embedder
from clocs.inference.pretrained import load_encoder
from clocs.signals.framing import FramePolicy
from clocs.training.shipped import find_encoder_folder
from tests.evaluation.benchmark.conftest import Moments

POLICY = FramePolicy(num_samples=500, sampling_rate=100, leads=("I", "II"))
FRAMES = np.random.default_rng(0).normal(size=(5, 2, 500)).astype(np.float32)
PRESENT = np.ones((5, 2), bool)


def test_a_shipped_encoder_and_its_onnx_file_give_the_embeddings_of_inference() -> None:
    frames = np.random.default_rng(0).normal(size=(3, 1, 2500)).astype(np.float32)
    shipped = load_embedder("clocs-small")
    assert (shipped.name, shipped.policy) == ("clocs-small", FramePolicy(num_samples=2500, sampling_rate=500))
    onnx = load_embedder(find_encoder_folder("clocs-small") / "model.onnx", policy=shipped.policy)
    expected = load_encoder("clocs-small").embed_frames(frames)
    for embedder in (shipped, onnx):
        assert not embedder.all_leads
        np.testing.assert_allclose(embedder.embed(frames, np.ones((3, 1), bool)), expected, atol=1e-3)
    assert shipped.identity != onnx.identity


def test_a_plain_module_takes_the_leads_of_the_policy_at_once() -> None:
    module = nn.Sequential(nn.Conv1d(2, 7, 9), nn.BatchNorm1d(7), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    module(torch.randn(8, 2, 500))
    embedder = load_embedder(module, policy=POLICY)
    assert (embedder.name, embedder.all_leads, embedder.outputs) == ("Sequential", True, (EMBEDDING,))
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(FRAMES)).numpy()
    np.testing.assert_allclose(embedder.embed(FRAMES, PRESENT), expected, atol=1e-5)
    absent = PRESENT.copy()
    absent[:, 1] = False
    np.testing.assert_allclose(
        embedder.embed(FRAMES, absent), embedder.embed(FRAMES * absent[:, :, None], PRESENT), atol=1e-6
    )
    with pytest.raises(ConfigError, match="has no features"):
        embedder.features(FRAMES, PRESENT)


def test_later_training_does_not_change_an_embedder() -> None:
    encoder = ResNet(in_channels=2, width=4)
    embedder = load_embedder(encoder, policy=POLICY)
    identity, before = embedder.identity, embedder.embed(FRAMES, PRESENT)
    with torch.no_grad():
        encoder.stem.weight.mul_(2)
    np.testing.assert_array_equal(embedder.embed(FRAMES, PRESENT), before)
    assert embedder.identity == identity != load_embedder(encoder, policy=POLICY).identity


@pytest.mark.parametrize("encoder", [ResNet(in_channels=2, width=4), CNN(in_channels=2, num_samples=500)])
def test_components_are_a_second_output(encoder: Encoder) -> None:
    plain = EncoderEmbedder("plain", encoder, POLICY)
    assert encoder.num_features is not None
    layer = nn.Linear(encoder.num_features, 3)
    both = EncoderEmbedder("both", encoder, POLICY, components=layer)
    outputs = both.embed_all(FRAMES, PRESENT)
    assert tuple(outputs) == both.outputs == (EMBEDDING, ADAPTED)
    np.testing.assert_allclose(outputs[EMBEDDING], plain.embed(FRAMES, PRESENT), atol=1e-5)
    expected = layer(torch.from_numpy(plain.features(FRAMES, PRESENT))).detach().numpy()
    np.testing.assert_allclose(outputs[ADAPTED], expected, atol=1e-5)
    assert both.identity != plain.identity


def test_an_embedder_is_returned_as_it_is() -> None:
    adapter = Moments()
    assert load_embedder(adapter) is adapter


def test_incomplete_descriptions_are_rejected() -> None:
    with pytest.raises(ConfigError, match="Pass policy="):
        load_embedder(nn.Identity())
    with pytest.raises(ConfigError, match="neither a folder nor a shipped encoder"):
        load_embedder("clocs-smal")
    with pytest.raises(ConfigError, match="takes 2 leads, and 0 are named"):
        EncoderEmbedder("resnet", ResNet(in_channels=2), FramePolicy(num_samples=500, sampling_rate=100))
    with pytest.raises(ConfigError, match="no sampling rate"):
        EncoderEmbedder("resnet", ResNet(), FramePolicy(num_samples=500, num_source_samples=500))
    unpooled = load_embedder(nn.Conv1d(2, 4, 3), policy=POLICY)
    with pytest.raises(ConfigError, match=r"expected embeddings of shape \(N, E\)"):
        unpooled.embed(FRAMES, PRESENT)
