"""The paper's network: its table, the fused block against torch's layers, and lengths of frames."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.encoders import CNN, build_encoder
from clocs.encoders.cnn import Block


def test_the_papers_table() -> None:
    """Appendix C.1: 7 x 1 x 4, 7 x 4 x 16, 7 x 16 x 32, then 320 x E; strides of 3, ReLU at the end."""
    encoder = CNN(embedding_dim=128)
    convolutions = [layer for layer in encoder.modules() if isinstance(layer, nn.Conv1d)]
    assert [tuple(layer.weight.shape) for layer in convolutions] == [(4, 1, 7), (16, 4, 7), (32, 16, 7)]
    assert [layer.stride for layer in convolutions] == [(3,)] * 3
    assert tuple(encoder.state_dict()["linear.weight"].shape) == (128, 320)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 28 + 448 + 3584 + 2 * 52 + 321 * 128
    assert (encoder(torch.randn(8, 1, 2500)) >= 0).all()
    assert (CNN(final_relu=False)(torch.randn(8, 1, 2500)) < 0).any()


def torchs_block(dropout: float = 0.0) -> list[nn.Module]:
    return [nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2), nn.Dropout(dropout)]


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("num_samples", [100, 104, 108])
def test_the_fused_block_equals_torchs_own_layers(channels: int, num_samples: int) -> None:
    """Values, gradients and running statistics; outputs of even and odd length."""
    torch.manual_seed(num_samples + channels)
    block = Block(channels, 16, dropout=0.0).double()
    nn.init.normal_(block.norm.weight)  # of both signs
    nn.init.normal_(block.norm.bias)
    literal = nn.Sequential(nn.Conv1d(channels, 16, 7, 3, bias=False), *torchs_block()).double()
    literal.load_state_dict(dict(zip(literal.state_dict(), block.state_dict().values(), strict=True)))
    inputs = [torch.randn(6, channels, num_samples).double().mul(3).add(50).requires_grad_() for _ in range(2)]
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


def test_frames_that_are_too_short_or_of_another_length_are_refused() -> None:
    encoder = build_encoder("cnn", {"num_samples": 388})
    assert encoder.num_tokens(388) == 1
    with pytest.raises(ConfigError, match="at least 388"):
        build_encoder("cnn", {"num_samples": 387})
    with pytest.raises(ConfigError, match=r"Expected frames of shape \(N, 1, 388\), got \(2, 1, 500\)"):
        encoder(torch.randn(2, 1, 500))


def test_features_and_tokens_are_those_of_the_blocks() -> None:
    """By hand, from the outputs of the blocks."""
    torch.manual_seed(0)
    encoder = CNN(num_samples=1000).eval()
    signals = torch.randn(3, 1, 1000)
    hidden, expected = signals, []
    for block in encoder.blocks:
        hidden = block(hidden)
        expected += [hidden.mean(2), hidden.amax(2)]
    torch.testing.assert_close(encoder.features(signals), torch.cat(expected, dim=1))
    torch.testing.assert_close(encoder.tokens(signals), hidden.transpose(1, 2))
    assert (encoder.num_features, encoder.token_dim) == (104, 32)


def test_initial_weights_and_outputs_of_one_lead_are_those_of_the_first_version() -> None:
    """Numbers that the encoder gave before it had tokens and features."""
    torch.manual_seed(0)
    encoder = build_encoder("cnn", {"num_samples": 500, "embedding_dim": 4})
    signals = torch.sin(torch.arange(500.0) / 7).view(1, 1, 500) * torch.tensor([1.0, 2.0]).view(2, 1, 1)
    torch.manual_seed(1)
    trained, evaluated = encoder(signals), encoder.eval()(signals)
    expected = [[0.47653890, 0.87865436, 0.02004218, 0.0], [0.28965491, 0.0, 0.20428358, 0.0]]
    torch.testing.assert_close(trained, torch.tensor(expected), rtol=1e-4, atol=1e-5)
    expected = [[0.15402256, 0.0, 0.19091287, 0.05606410], [0.17476115, 0.0, 0.21902508, 0.05538093]]
    torch.testing.assert_close(evaluated, torch.tensor(expected), rtol=1e-4, atol=1e-5)
