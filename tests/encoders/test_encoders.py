"""Every registered encoder keeps the contract; the paper's has the paper's shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.encoders import ENCODERS, build_encoder
from clocs.encoders.cnn import Cnn, CnnOptions


@pytest.mark.parametrize("name", ENCODERS.names())
@pytest.mark.parametrize(("channels", "samples", "embedding"), [(1, 2500, 128), (1, 1000, 32), (12, 2500, 64)])
def test_any_frame_becomes_an_embedding(name: str, channels: int, samples: int, embedding: int) -> None:
    encoder = build_encoder(name, {"channels": channels, "samples": samples, "embedding": embedding})
    signals = torch.randn(3, channels, samples)
    out = encoder(signals)
    assert out.shape == (3, embedding)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


@pytest.mark.parametrize("name", ENCODERS.names())
def test_weights_come_from_the_seed_and_eval_is_deterministic(name: str) -> None:
    signals = torch.randn(2, 1, 2500)
    made = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(build_encoder(name).eval())
    torch.testing.assert_close(made[0](signals), made[1](signals), rtol=0, atol=0)
    torch.testing.assert_close(made[0](signals)[:1], made[0](signals[:1]), rtol=1e-4, atol=1e-6)


def test_the_papers_table() -> None:
    """Appendix C.1: 7 x 1 x 4, 7 x 4 x 16, 7 x 16 x 32, then 320 x E; strides of 3, ReLU at the end."""
    encoder = Cnn(CnnOptions(embedding=128))
    convolutions = [layer for layer in encoder.convolutions if isinstance(layer, nn.Conv1d)]
    assert [tuple(layer.weight.shape) for layer in convolutions] == [(4, 1, 7), (16, 4, 7), (32, 16, 7)]
    assert [layer.stride for layer in convolutions] == [(3,)] * 3
    assert tuple(encoder.linear.weight.shape) == (128, 320)
    assert [type(layer).__name__ for layer in encoder.convolutions][:5] == [
        *("Conv1d", "BatchNorm1d", "ReLU", "MaxPool1d", "Dropout"),
    ]
    assert (encoder(torch.randn(8, 1, 2500)) >= 0).all()
    assert (Cnn(CnnOptions(final_relu=False))(torch.randn(8, 1, 2500)) < 0).any()


def test_frames_that_are_too_short_are_refused() -> None:
    build_encoder("cnn", {"samples": 388})
    with pytest.raises(ConfigError, match="at least 388"):
        build_encoder("cnn", {"samples": 387})


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"colour.*embedding|embedding.*colour"):
        build_encoder("cnn", {"colour": 1, "embedding": -3})
    with pytest.raises(ConfigError, match="unknown encoder"):
        build_encoder("nope")
