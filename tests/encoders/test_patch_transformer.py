"""The patch transformer against a version in loops, and what leaving patches out means."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.encoders import PatchTransformer, PCAEncoder, build_encoder
from clocs.encoders.encoder import describe_encoder
from clocs.encoders.patch_transformer import attend
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder
from tests.inference.conftest import about

Row = list[float]
Rows = list[Row]


def linear(row: Row, weights: dict[str, Tensor], name: str) -> Row:
    """Compute one row of a linear layer by sums."""
    weight, bias = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
    return [sum(w * x for w, x in zip(line, row, strict=True)) + b for line, b in zip(weight, bias, strict=True)]


def normed(row: Row, weights: dict[str, Tensor], name: str) -> Row:
    """Compute the LayerNorm of one token."""
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
    weight, bias = weights[f"{name}.weight"].tolist(), weights[f"{name}.bias"].tolist()
    return [(x - mean) / deviation * w + b for x, w, b in zip(row, weight, bias, strict=True)]


def attended(rows: Rows, weights: dict[str, Tensor], name: str, heads: int) -> Rows:
    """Compute the attention of all tokens to all tokens, head by head."""
    width = len(rows[0])
    size = width // heads
    all_three = [linear(row, weights, f"{name}.query_key_value") for row in rows]
    result = []
    for own in all_three:
        joined: Row = []
        for head in range(heads):
            columns = range(head * size, (head + 1) * size)
            scores = [sum(own[d] * other[width + d] for d in columns) / math.sqrt(size) for other in all_three]
            shares = [math.exp(score) for score in scores]
            joined += [
                sum(share * other[2 * width + d] for share, other in zip(shares, all_three, strict=True)) / sum(shares)
                for d in columns
            ]
        result.append(linear(joined, weights, f"{name}.joined"))
    return result


def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def literal(encoder: PatchTransformer, signal: Tensor, heads: int, depth: int) -> tuple[Rows, list[Rows]]:
    """Compute the tokens of one frame (C, S) after the last norm and after every block."""
    weights, size = encoder.state_dict(), encoder.patch_size
    width = encoder.token_dim
    rows: Rows = []
    for t in range(signal.shape[1] // size):
        patch = [float(lead[t * size + k]) for lead in signal for k in range(size)]
        row = linear(patch, weights, "embed_patches")
        for d in range(width):
            angle = t / 10_000 ** (2 * (d // 2) / width)
            row[d] += math.cos(angle) if d % 2 else math.sin(angle)
        rows.append(row)
    outputs = []
    for b in range(depth):
        more = attended(
            [normed(row, weights, f"blocks.{b}.attention_norm") for row in rows],
            weights,
            f"blocks.{b}.attention",
            heads,
        )
        rows = [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(rows, more, strict=True)]
        for t, row in enumerate(rows):
            hidden = [
                gelu(x) for x in linear(normed(row, weights, f"blocks.{b}.mlp_norm"), weights, f"blocks.{b}.first")
            ]
            rows[t] = [x + y for x, y in zip(row, linear(hidden, weights, f"blocks.{b}.second"), strict=True)]
        outputs.append([list(row) for row in rows])
    return [normed(row, weights, "norm") for row in rows], outputs


def small(in_channels: int = 2) -> PatchTransformer:
    """Return an encoder of two blocks of width 12 with three heads, in float64, with random biases and norms."""
    torch.manual_seed(in_channels)
    encoder = PatchTransformer(in_channels, 5, patch_size=10, width=12, depth=2, num_heads=3, mlp_ratio=1.5).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return encoder.eval()


def test_tokens_features_and_embeddings_equal_the_loops() -> None:
    encoder = small()
    signals = torch.randn(2, 2, 57, dtype=torch.float64)
    for n, signal in enumerate(signals):
        tokens, blocks = literal(encoder, signal, heads=3, depth=2)
        expected = torch.tensor(tokens, dtype=torch.float64)
        torch.testing.assert_close(encoder.tokens(signals)[n], expected, rtol=1e-10, atol=1e-10)
        means = torch.cat([torch.tensor(blocks[0], dtype=torch.float64).mean(0), expected.mean(0)])
        torch.testing.assert_close(encoder.features(signals)[n], means, rtol=1e-10, atol=1e-10)
        embedding = torch.tensor(linear(expected.mean(0).tolist(), encoder.state_dict(), "linear"), dtype=torch.float64)
        torch.testing.assert_close(encoder(signals)[n], embedding, rtol=1e-10, atol=1e-10)


def test_keeping_all_patches_equals_no_keep() -> None:
    encoder, signals = small(), torch.randn(3, 2, 80, dtype=torch.float64)
    everything = torch.arange(8).expand(3, 8)
    torch.testing.assert_close(encoder.tokens(signals, keep=everything), encoder.tokens(signals), rtol=0, atol=1e-12)


def test_kept_patches_have_their_positions_in_the_requested_order() -> None:
    encoder, signals = small(), torch.randn(3, 2, 80, dtype=torch.float64)
    order = torch.stack([torch.randperm(8) for _ in range(3)])
    expected = torch.stack([tokens[line] for tokens, line in zip(encoder.tokens(signals), order, strict=True)])
    torch.testing.assert_close(encoder.tokens(signals, keep=order), expected, rtol=0, atol=1e-12)


def test_patches_that_are_left_out_reach_nothing() -> None:
    encoder, signals = small(), torch.randn(2, 2, 80, dtype=torch.float64)
    keep = torch.tensor([[1, 4, 6], [7, 0, 2]])
    tokens = encoder.tokens(signals, keep=keep)
    assert tokens.shape == (2, 3, 12)
    other = torch.full_like(signals, torch.nan)
    for n, line in enumerate(keep.tolist()):
        for t in line:
            other[n, :, 10 * t : 10 * t + 10] = signals[n, :, 10 * t : 10 * t + 10]
    torch.testing.assert_close(encoder.tokens(other, keep=keep), tokens, rtol=0, atol=0)
    assert (tokens - encoder.tokens(signals).gather(1, keep.unsqueeze(2).expand(-1, -1, 12))).abs().max() > 1e-3
    start = encoder.tokens(signals, keep=torch.arange(4).expand(2, 4))
    torch.testing.assert_close(start, encoder.tokens(signals[:, :, :40]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("keep", [torch.zeros(3, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)])
def test_keep_of_another_shape_is_refused(keep: Tensor) -> None:
    with pytest.raises(ConfigError, match=r"Expected keep of shape \(3, K\)"):
        small().tokens(torch.randn(3, 2, 80, dtype=torch.float64), keep=keep)


def test_patches_and_positions_serve_decoders() -> None:
    encoder, signals = small(), torch.randn(2, 2, 37, dtype=torch.float64)
    mask = torch.tensor([[True, False], [True, True]])
    patches = encoder.patches(signals, mask)
    assert patches.shape == (2, 3, 20)
    assert torch.equal(patches[1, 2], signals[1, :, 20:30].flatten())
    assert torch.equal(patches[0, 1], torch.cat([signals[0, 0, 10:20], torch.zeros(10, dtype=torch.float64)]))
    positions = encoder.positions(50)
    assert (positions.shape, positions.dtype) == ((50, 12), torch.float64)
    assert torch.equal(positions[:7], encoder.positions(7))
    assert torch.unique(positions, dim=0).shape == (50, 12)
    assert encoder.bfloat16().positions(50).dtype == torch.bfloat16


def test_patches_of_an_ordinary_amplitude_are_as_large_as_positions() -> None:
    """Tokens that differ by position alone can be predicted by masked models without looking at the signal."""
    torch.manual_seed(0)
    encoder = PatchTransformer(in_channels=12, patch_size=10)
    embedded = encoder.embed_patches(encoder.patches(0.15 * torch.randn(64, 12, 500)))
    ratio = embedded.square().mean().sqrt() / encoder.positions(50).square().mean().sqrt()
    assert 1.2 < ratio.item() < 1.6  # 1 against the square root of 1/2


def test_untrained_tokens_attend_to_their_neighbours() -> None:
    """Masked models predict the mean for long if attention starts uniform: neighbours tell most about a patch."""
    torch.manual_seed(0)
    encoder = PatchTransformer(in_channels=12, patch_size=10)
    block = encoder.get_submodule("blocks.0")
    tokens = block.get_submodule("attention_norm")(encoder.positions(50))
    parts = block.get_submodule("attention.query_key_value")(tokens).unflatten(1, (3, 4, 24))
    query, key, _ = parts.permute(1, 2, 0, 3)
    shares = (query @ key.transpose(1, 2) / math.sqrt(24)).softmax(2).mean(0)
    distance = (torch.arange(50) - torch.arange(50).unsqueeze(1)).abs()
    near, far = shares[distance == 1].mean().item(), shares[distance == 10].mean().item()
    assert near > 2 * far


def test_attention_in_bfloat16_has_the_values_and_gradients_of_float64() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randn(2, 3, 7, 8, generator=generator) for _ in range(4)]
    results = []
    for dtype in (torch.float64, torch.bfloat16):
        *parts, weights = (each.to(torch.bfloat16).to(dtype) for each in drawn)
        for part in parts:
            part.requires_grad_()
        attended = attend(*parts)
        torch.autograd.backward((attended * weights).sum())
        results.append([attended.detach(), *(part.grad for part in parts)])
    for exact, rounded in zip(*results, strict=True):
        assert rounded is not None
        assert rounded.dtype == torch.bfloat16
        torch.testing.assert_close(rounded.double(), exact, atol=0.03, rtol=0.03)


def test_parameters_counted_by_hand() -> None:
    block = 2 * 2 * 96 + (96 * 288 + 288) + (96 * 96 + 96) + (96 * 384 + 384) + (384 * 96 + 96)
    count = sum(parameter.numel() for parameter in build_encoder("patch_transformer").parameters())
    assert count == (25 * 96 + 96) + 4 * block + 2 * 96 + (96 * 128 + 128) == 462_464


def test_frames_without_a_whole_patch_and_widths_that_do_not_fit_are_refused() -> None:
    encoder = PatchTransformer()
    assert [encoder.num_tokens(num_samples) for num_samples in (25, 49, 2500)] == [1, 1, 100]
    with pytest.raises(ConfigError, match="24 samples are shorter than a patch of 25"):
        encoder(torch.randn(1, 1, 24))
    for options in ({"width": 50, "num_heads": 4}, {"width": 9, "num_heads": 3}):
        with pytest.raises(ConfigError, match="must be even and divisible by num_heads"):
            build_encoder("patch_transformer", options)


def test_dropout_is_drawn_from_the_seed_in_training_only() -> None:
    encoder, signals = PatchTransformer(dropout=0.5), torch.randn(4, 1, 500)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(encoder(signals))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    encoder.eval()
    assert torch.equal(encoder(signals), encoder(signals))


def test_features_reach_every_weight_that_pca_leaves() -> None:
    """Training on several ranks refuses a parameter without a gradient."""
    encoder = PCAEncoder(PatchTransformer(in_channels=2, depth=2), embedding_dim=4)
    encoder(torch.randn(2, 2, 100)).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


@pytest.mark.parametrize("in_channels", [pytest.param(1, marks=pytest.mark.slow), 12])
def test_the_onnx_file_equals_torch(in_channels: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder = PatchTransformer(in_channels=in_channels, embedding_dim=8, depth=2).eval()
    policy = FramePolicy(num_samples=510, sampling_rate=100, leads=STANDARD_LEADS if in_channels > 1 else ())
    save_encoder(tmp_path, encoder, about(policy) | {"encoder": describe_encoder(encoder)})
    assert finish_encoder(tmp_path) == ""
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    signals, mask = torch.randn(3, in_channels, 510), torch.rand(3, in_channels) < 0.7
    given = {"signals": signals.numpy()}
    if in_channels > 1:
        given["lead_mask"] = mask.numpy()
    (found,) = session.run(None, given)
    expected = encoder(signals, mask if in_channels > 1 else None).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_without_a_head_the_embedding_is_the_mean_of_the_tokens() -> None:
    torch.manual_seed(0)
    encoder = PatchTransformer(2, 12, patch_size=10, width=12, depth=1, num_heads=3, head="none").eval()
    signals = torch.randn(3, 2, 80)
    torch.testing.assert_close(encoder(signals), encoder.tokens(signals).mean(1), rtol=0, atol=0)
    assert "linear" not in {name.partition(".")[0] for name in encoder.state_dict()}
    section = describe_encoder(encoder)
    assert section["options"]["head"] == "none"
    build_encoder(section["name"], section["options"]).load_state_dict(encoder.state_dict())
    with pytest.raises(ConfigError, match="embedding_dim=128: without a head it is the width of a token, 96"):
        PatchTransformer(head="none")
