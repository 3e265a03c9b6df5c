"""The residual network against torch's one-dimensional layers, and its shapes and parameters counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import ResNet, build_encoder
from clocs.encoders.resnet import Block


class LiteralBlock(nn.Module):
    """Block with layers in the order of ``Block``, so that weights can be copied one by one."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv1d(channels, width, 7, 2, 3, bias=False), nn.BatchNorm1d(width)
        self.second, self.second_norm = nn.Conv1d(width, width, 5, 1, 2, bias=False), nn.BatchNorm1d(width)
        self.shortcut, self.shortcut_norm = nn.Conv1d(channels, width, 1, 2, bias=False), nn.BatchNorm1d(width)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = torch.relu(self.first_norm(self.first(hidden)))
        return torch.relu(self.second_norm(self.second(inner)) + self.shortcut_norm(self.shortcut(hidden)))


class Literal(nn.Module):
    """The network in torch's one-dimensional layers, nothing in place."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv1d(channels, 24, 15, 5, 7, bias=False), nn.BatchNorm1d(24)
        pairs = ((24, 24), (24, 48), (48, 72), (72, 96))
        self.blocks = nn.Sequential(*(LiteralBlock(*pair) for pair in pairs))
        self.linear = nn.Linear(192, 128)

    def forward(self, signals: Tensor) -> Tensor:
        hidden = self.blocks(torch.relu(self.stem_norm(self.stem(signals))))
        embeddings: Tensor = self.linear(torch.cat([hidden.mean(dim=2), hidden.max(dim=2).values], dim=1))
        return embeddings


def with_weights_of(encoder: ResNet, channels: int) -> Literal:
    literal = Literal(channels).double()
    weights = zip(literal.state_dict().items(), encoder.state_dict().values(), strict=True)
    literal.load_state_dict({name: ours.view_as(theirs) for (name, theirs), ours in weights})
    return literal


@pytest.mark.parametrize(("channels", "num_samples"), [(1, 2500), (1, 333), (12, 500)])
def test_values_gradients_and_statistics_equal_torchs_own_layers(channels: int, num_samples: int) -> None:
    torch.manual_seed(num_samples)
    encoder = ResNet(in_channels=channels).double()
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight)  # of both signs
            nn.init.normal_(layer.bias)
    literal = with_weights_of(encoder, channels)
    ours = torch.randn(5, channels, num_samples, dtype=torch.float64).add(3).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    weights = torch.randn(5, 128, dtype=torch.float64)
    for network, signals in ((encoder, ours), (literal, theirs)):
        (network(signals) * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)
    for mine, other in zip(encoder.parameters(), literal.parameters(), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(mine.grad.view_as(other.grad), other.grad, rtol=1e-9, atol=1e-9)
    for kept, expected in zip(encoder.buffers(), literal.buffers(), strict=True):
        torch.testing.assert_close(kept, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(encoder.eval()(ours), literal.eval()(theirs), rtol=1e-10, atol=1e-10)


def test_parameters_counted_by_hand() -> None:
    """Weights are inputs x outputs x kernel; a BatchNorm has two a channel."""
    stem = 15 * 1 * 24 + 2 * 24
    blocks = [
        24 * 24 * 7 + 24 * 24 * 5 + 24 * 24 + 6 * 24,
        24 * 48 * 7 + 48 * 48 * 5 + 24 * 48 + 6 * 48,
        48 * 72 * 7 + 72 * 72 * 5 + 48 * 72 + 6 * 72,
        72 * 96 * 7 + 96 * 96 * 5 + 72 * 96 + 6 * 96,
    ]
    linear = 2 * 96 * 128 + 128
    count = sum(parameter.numel() for parameter in build_encoder("resnet").parameters())
    assert count == stem + sum(blocks) + linear == 209_720


def outputs_of(encoder: nn.Module, signals: Tensor) -> list[Tensor]:
    """Return the outputs of the stem and of each block."""
    seen: list[Tensor] = []

    def keep(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        seen.append(output)

    for layer in encoder.modules():
        if isinstance(layer, Block) or layer is encoder.stem_norm:
            layer.register_forward_hook(keep)
    encoder(signals)
    return seen


def test_lengths_and_widths_are_those_of_the_options_with_channels_last_in_memory() -> None:
    """2,500 samples, a fifth of them, then half four times, rounded up; another layout would be slow."""
    made = outputs_of(build_encoder("resnet"), torch.randn(2, 1, 2500))
    assert [value.shape[1::2] for value in made] == [(24, 500), (24, 250), (48, 125), (72, 63), (96, 32)]
    assert all(value.is_contiguous(memory_format=torch.channels_last) for value in made)
    options = {"width": 8, "depth": 2, "kernel_size": 3, "stem_kernel_size": 4, "stem_stride": 2, "in_channels": 3}
    small = build_encoder("resnet", options)
    assert [value.shape[1::2] for value in outputs_of(small, torch.randn(2, 3, 100))] == [(8, 51), (8, 26), (16, 13)]
    kernels = [layer.kernel_size for layer in small.modules() if isinstance(layer, nn.Conv2d)]
    assert kernels == [(1, 3), (1, 1), (1, 1), (1, 3), (1, 1), (1, 1)]


def test_one_network_takes_any_length_and_has_no_relu_at_its_end() -> None:
    encoder = build_encoder("resnet", {"embedding_dim": 16}).eval()
    for num_samples in (1, 14, 250, 2499, 5000):
        assert encoder(torch.randn(3, 1, num_samples)).shape == (3, 16)
    assert (encoder(torch.randn(8, 1, 2500)) < 0).any()


def test_every_block_can_be_pooled_with_the_same_weights_before() -> None:
    """By hand, from what the blocks make."""
    options: dict[str, Any] = {"width": 4, "depth": 3, "embedding_dim": 8}
    torch.manual_seed(0)
    last = ResNet(**options).eval()
    torch.manual_seed(0)
    every = ResNet(**options, pooling="all_blocks").eval()
    signals = torch.randn(2, 1, 300)
    _, *blocks = outputs_of(last, signals)
    expected = [pooled for block in blocks for pooled in (block.mean((2, 3)), block.amax((2, 3)))]
    torch.testing.assert_close(every.features(signals), torch.cat(expected, dim=1))
    torch.testing.assert_close(last.features(signals), torch.cat(expected, dim=1))
    torch.testing.assert_close(every(signals), every.linear(torch.cat(expected, dim=1)))
    torch.testing.assert_close(last(signals), last.linear(torch.cat(expected[-2:], dim=1)))
    torch.testing.assert_close(last.tokens(signals), blocks[-1].squeeze(2).transpose(1, 2))
    assert every.num_features == 2 * (4 + 8 + 12)


def test_dropout_is_drawn_from_the_seed_in_training_only() -> None:
    encoder, signals = build_encoder("resnet", {"width": 4, "dropout": 0.5}), torch.randn(4, 1, 500)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(encoder(signals))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    encoder.eval()
    assert torch.equal(encoder(signals), encoder(signals))


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kernel_size: .*must be odd"):
        build_encoder("resnet", {"kernel_size": 8})
    with pytest.raises(ValueError, match="must be odd"):
        ResNet(kernel_size=8)


def test_initial_weights_and_outputs_of_one_lead_are_those_of_the_first_version() -> None:
    """Numbers that the encoder gave before it took several leads."""
    torch.manual_seed(0)
    encoder = build_encoder("resnet", {"embedding_dim": 4, "width": 4})
    signals = torch.sin(torch.arange(500.0) / 7).view(1, 1, 500) * torch.tensor([1.0, 2.0]).view(2, 1, 1)
    trained, evaluated = encoder(signals), encoder.eval()(signals)
    expected = [[-0.38407323, 1.67984295, 0.05688004, 0.21288037], [-0.38944003, 1.50349665, -0.30855829, -0.35286427]]
    torch.testing.assert_close(trained, torch.tensor(expected), rtol=1e-4, atol=1e-5)
    expected = [[0.12256193, 0.09036991, 0.06493758, 0.14449640], [0.12564868, 0.08588135, 0.06485123, 0.14211500]]
    torch.testing.assert_close(evaluated, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_twelve_leads_are_mixed_in_the_stem() -> None:
    """A stem that takes one lead with weight one and no other gives what that lead gives alone."""
    torch.manual_seed(0)
    one, twelve = ResNet(width=4).eval(), ResNet(in_channels=12, width=4).eval()
    weights = one.state_dict()
    stem = torch.zeros(4, 12, 15)
    stem[:, 7] = weights["stem.weight"][:, 0]
    twelve.load_state_dict({**weights, "stem.weight": stem})
    signals = torch.randn(3, 12, 500)
    torch.testing.assert_close(twelve(signals), one(signals[:, 7:8]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("pooling", "size"), [("last", 192), ("all_blocks", 480)])
def test_without_a_head_the_embedding_is_the_pooled_activations(pooling: Any, size: int) -> None:
    encoder = ResNet(embedding_dim=size, pooling=pooling, head="none").eval()
    signals = torch.randn(2, 1, 500)
    assert torch.equal(encoder(signals), encoder.features(signals)[:, -size:])
    assert not any(name.startswith("linear") for name, _ in encoder.named_parameters())
    with pytest.raises(ConfigError, match=f"embedding_dim=128: without a head .* {size}"):
        ResNet(pooling=pooling, head="none")


def test_freeze_head_freezes_the_layers_that_remove_head_removes() -> None:
    encoder = ResNet()
    encoder.freeze_head()
    frozen = [name for name, value in encoder.named_parameters() if not value.requires_grad]
    assert frozen == ["linear.weight", "linear.bias"]
    assert encoder(torch.randn(2, 1, 500)).shape == (2, 128)
