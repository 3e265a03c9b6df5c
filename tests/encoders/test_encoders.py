"""Every registered encoder keeps the contract; the paper's has the paper's shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.encoders import ENCODERS, build_encoder
from clocs.encoders.cnn import Block, Cnn, CnnOptions


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
    convolutions = [layer for layer in encoder.modules() if isinstance(layer, nn.Conv1d)]
    assert [tuple(layer.weight.shape) for layer in convolutions] == [(4, 1, 7), (16, 4, 7), (32, 16, 7)]
    assert [layer.stride for layer in convolutions] == [(3,)] * 3
    assert tuple(encoder.linear.weight.shape) == (128, 320)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 28 + 448 + 3584 + 2 * 52 + 321 * 128
    assert (encoder(torch.randn(8, 1, 2500)) >= 0).all()
    assert (Cnn(CnnOptions(final_relu=False))(torch.randn(8, 1, 2500)) < 0).any()


def torchs_block(dropout: float = 0.0) -> list[nn.Module]:
    return [nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2), nn.Dropout(dropout)]


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("samples", [100, 104, 108])
def test_the_fused_block_equals_torchs_own_layers(channels: int, samples: int) -> None:
    """Values, gradients and running statistics; outputs of even and odd length."""
    torch.manual_seed(samples + channels)
    block = Block(channels, 16, dropout=0.0).double()
    nn.init.normal_(block.norm.weight)  # of both signs
    nn.init.normal_(block.norm.bias)
    literal = nn.Sequential(nn.Conv1d(channels, 16, 7, 3, bias=False), *torchs_block()).double()
    literal.load_state_dict(dict(zip(literal.state_dict(), block.state_dict().values(), strict=True)))
    inputs = [torch.randn(6, channels, samples).double().mul(3).add(50).requires_grad_() for _ in range(2)]
    inputs[1].data.copy_(inputs[0].data)
    outputs = [layers(values) for layers, values in zip((block, literal), inputs, strict=True)]
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-10)
    weights = torch.randn_like(outputs[0])
    for output in outputs:
        (output * weights).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(block.parameters(), literal.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)
    for name, running in zip(("running_mean", "running_var"), list(literal.buffers())[:2], strict=True):
        torch.testing.assert_close(getattr(block.norm, name), running, rtol=1e-10, atol=1e-10)


def test_the_fused_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    block = Block(1, 16, dropout=0.1)
    signals = torch.randn(64, 1, 2500)
    whole = Block(1, 16, dropout=0.0)
    whole.load_state_dict(block.state_dict())
    dropped, kept = block(signals), whole(signals)
    alive = kept > 0
    share = float((dropped[alive] == 0).double().mean())
    assert abs(share - 0.1) < 4 * (0.09 / int(alive.sum())) ** 0.5
    ratio = dropped[alive & (dropped > 0)] / kept[alive & (dropped > 0)]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1 / 0.9), rtol=1e-5, atol=0)
    torch.manual_seed(1)
    again = block(signals)
    torch.manual_seed(1)
    assert torch.equal(again, block(signals))


def test_frames_that_are_too_short_are_refused() -> None:
    build_encoder("cnn", {"samples": 388})
    with pytest.raises(ConfigError, match="at least 388"):
        build_encoder("cnn", {"samples": 387})


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"colour.*embedding|embedding.*colour"):
        build_encoder("cnn", {"colour": 1, "embedding": -3})
    with pytest.raises(ConfigError, match="unknown encoder"):
        build_encoder("nope")
