"""The network that predicts masked tokens, against loops; and which encoders masked models take."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.encoders import CNN, Encoder, PatchTransformer, PCAEncoder, ResNet, wrap
from clocs.methods import JEPA, MAE, METHODS
from clocs.methods.masked import TokenPredictor, gather_tokens
from tests.encoders.test_patch_transformer import Row, Rows, attended, gelu, linear, normed

MASKED = [MAE, JEPA]


def predicted(predictor: TokenPredictor, tokens: Tensor, keep: Tensor, wanted: Tensor, heads: int) -> Rows:
    """Compute the predictions of one frame from tokens (K, D) at ``keep`` (K,), at positions ``wanted`` (Q,)."""
    weights, width = predictor.state_dict(), predictor.width

    def at(row: Row, position: int) -> Row:
        angles = [position / 10_000 ** (2 * (d // 2) / width) for d in range(width)]
        return [x + (math.cos(a) if d % 2 else math.sin(a)) for d, (x, a) in enumerate(zip(row, angles, strict=True))]

    rows = [at(linear(token.tolist(), weights, "embed_tokens"), int(t)) for token, t in zip(tokens, keep, strict=True)]
    rows += [at(weights["mask_token"].tolist(), int(t)) for t in wanted]
    for b in range(len(predictor.blocks)):
        name = f"blocks.{b}"
        more = attended(
            [normed(row, weights, f"{name}.attention_norm") for row in rows], weights, f"{name}.attention", heads
        )
        rows = [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(rows, more, strict=True)]
        for t, row in enumerate(rows):
            hidden = [gelu(x) for x in linear(normed(row, weights, f"{name}.mlp_norm"), weights, f"{name}.first")]
            rows[t] = [x + y for x, y in zip(row, linear(hidden, weights, f"{name}.second"), strict=True)]
    return [linear(normed(row, weights, "norm"), weights, "linear") for row in rows[len(keep) :]]


def test_predictions_equal_the_loops() -> None:
    torch.manual_seed(0)
    predictor = TokenPredictor(in_dim=5, out_dim=7, width=6, depth=2, num_heads=3).double()
    with torch.no_grad():
        for parameter in predictor.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    tokens = torch.randn(2, 3, 5, dtype=torch.float64)
    keep, wanted = torch.tensor([[0, 4, 2], [1, 2, 8]]), torch.tensor([[1, 9], [0, 3]])
    found = predictor(tokens, keep, wanted)
    expected = [predicted(predictor, *each, heads=3) for each in zip(tokens, keep, wanted, strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_predictions_do_not_depend_on_the_order_of_tokens() -> None:
    torch.manual_seed(0)
    predictor = TokenPredictor(in_dim=5, out_dim=7, width=8, depth=1, num_heads=2).double()
    tokens, keep, wanted = torch.randn(1, 3, 5, dtype=torch.float64), torch.tensor([[0, 4, 2]]), torch.tensor([[1, 9]])
    order = [2, 0, 1]
    torch.testing.assert_close(predictor(tokens[:, order], keep[:, order], wanted), predictor(tokens, keep, wanted))


def test_tokens_are_gathered_by_their_positions() -> None:
    tokens = torch.arange(24.0).view(2, 4, 3)
    found = gather_tokens(tokens, torch.tensor([[3, 0], [1, 1]]))
    assert torch.equal(found, torch.stack([tokens[0, [3, 0]], tokens[1, [1, 1]]]))


@pytest.mark.parametrize(("width", "heads"), [(7, 1), (8, 3)])
def test_an_invalid_width_is_refused(width: int, heads: int) -> None:
    with pytest.raises(ConfigError, match=f"A width of {width} must be even and divisible by num_heads={heads}"):
        TokenPredictor(4, 4, width, depth=1, num_heads=heads)


@pytest.mark.parametrize("method", MASKED)
@pytest.mark.parametrize(
    "encoder",
    [CNN(), ResNet(), PCAEncoder(PatchTransformer()), wrap(torch.nn.Flatten(), in_channels=1, embedding_dim=50)],
)
def test_encoders_that_compute_all_tokens_are_refused(method: type[MAE | JEPA], encoder: Encoder) -> None:
    with pytest.raises(ConfigError, match=f"{method.__name__} leaves tokens out, and {encoder.label} cannot"):
        method(encoder)


@pytest.mark.parametrize("method", MASKED)
def test_a_head_that_tokens_do_not_use_is_frozen_and_without_one_an_embedding_is_the_mean_of_tokens(
    method: type[MAE | JEPA],
) -> None:
    encoder = method(PatchTransformer(width=8, depth=1, num_heads=2)).encoder
    assert [name for name, value in encoder.named_parameters() if not value.requires_grad] == [
        "linear.weight",
        "linear.bias",
    ]
    bare = method(PatchTransformer(width=8, depth=1, num_heads=2, embedding_dim=8, head="none")).encoder
    assert all(value.requires_grad for value in bare.parameters())
    signals = torch.randn(2, 1, 500)
    torch.testing.assert_close(bare(signals), bare.tokens(signals).mean(1))


def test_masked_methods_are_marked() -> None:
    assert [name for name in METHODS.names() if METHODS.get(name).needs_patches] == ["jepa", "mae"]
