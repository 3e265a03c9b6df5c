"""S4D against the recurrence of its state spaces in loops, and as an ONNX file with constant kernels."""

from __future__ import annotations

import cmath
import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import S4D, Encoder, PCAEncoder, build_encoder
from clocs.encoders.encoder import describe_encoder
from clocs.encoders.s4d import Block, StateSpace
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder
from tests.inference.conftest import about


def scrambled(module: nn.Module) -> None:
    """Move all parameters away from where they start."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


def state_space(width: int = 3, state_dim: int = 6, bidirectional: bool = True) -> StateSpace:
    torch.manual_seed(state_dim)
    layer = StateSpace(width, state_dim, bidirectional).double()
    scrambled(layer)
    return layer


def recurrence(layer: StateSpace, signal: list[float], channel: int, direction: int) -> list[float]:
    """Compute one channel in one direction, without the skip: x_t = A' x_{t-1} + B' u_t and y_t = C x_t."""
    weights = {name: value[channel].tolist() for name, value in layer.state_dict().items() if name != "output"}
    step, outputs = math.exp(weights["log_step"]), layer.state_dict()["output"][:, channel, direction].tolist()
    poles, reads, inputs, states = [], [], [], []
    for decay, frequency, real, imaginary in zip(weights["log_decay"], weights["frequency"], *outputs, strict=True):
        for sign in (1, -1):  # a state and its conjugate
            a = complex(-math.exp(decay), sign * frequency)
            poles.append(cmath.exp(step * a))
            inputs.append((cmath.exp(step * a) - 1) / a)
            reads.append(complex(real, sign * imaginary))
            states.append(0j)
    made = []
    for sample in signal:
        states = [pole * x + b * sample for pole, x, b in zip(poles, states, inputs, strict=True)]
        y = sum(c * x for c, x in zip(reads, states, strict=True))
        assert abs(y.imag) < 1e-10
        made.append(y.real)
    return made


def literal(layer: StateSpace, hidden: Tensor) -> Tensor:
    """Compute all channels in all directions, with the skip."""
    result = torch.zeros_like(hidden)
    for n, frame in enumerate(hidden.tolist()):
        for h, signal in enumerate(frame):
            total = [layer.skip[h].item() * u for u in signal]
            past = recurrence(layer, signal, h, 0)
            total = [x + y for x, y in zip(total, past, strict=True)]
            if layer.output.shape[2] == 2:
                future = recurrence(layer, signal[::-1], h, 1)[::-1]
                total = [x + y for x, y in zip(total, future, strict=True)]
            result[n, h] = torch.tensor(total, dtype=hidden.dtype)
    return result


both_ways = pytest.mark.parametrize("bidirectional", [True, False])


@both_ways
@pytest.mark.parametrize("length", [1, 2, 37, 64])
def test_fft_and_convolution_equal_the_recurrence(length: int, bidirectional: bool) -> None:
    layer = state_space(bidirectional=bidirectional)
    hidden = torch.randn(2, 3, length, dtype=torch.float64)
    expected = literal(layer, hidden)
    torch.testing.assert_close(layer.train()(hidden), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer.eval()(hidden), expected, rtol=1e-10, atol=1e-10)
    layer.prepare(length)
    torch.testing.assert_close(layer(hidden), expected, rtol=1e-10, atol=1e-10)


@both_ways
def test_gradients_of_both_ways_to_convolve_are_equal(bidirectional: bool) -> None:
    layer, hidden = state_space(bidirectional=bidirectional), torch.randn(2, 3, 50, dtype=torch.float64)
    weights, found = torch.randn_like(hidden), []
    for mode in (True, False):
        layer.train(mode).zero_grad()
        given = hidden.clone().requires_grad_()
        (layer(given) * weights).sum().backward()
        found.append([given.grad, *(parameter.grad for parameter in layer.parameters())])
    for first, second in zip(*found, strict=True):
        assert first is not None
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)
        assert (first != 0).any()


def test_a_step_of_zero_order_hold_by_hand() -> None:
    """A = -1/2 and C = 1 give 2 (1 - e^(-step / 2)) / (1 / 2) at once, which then decays by e^(-step / 2)."""
    layer = StateSpace(1, 2, bidirectional=False).double()
    with torch.no_grad():
        for parameter, value in ((layer.log_step, math.log(0.2)), (layer.output[1], 0), (layer.skip, 0)):
            parameter.fill_(value)
        layer.output[0].fill_(1)
    expected = [4 * (1 - math.exp(-0.1)) * math.exp(-0.1 * t) for t in range(5)]
    torch.testing.assert_close(layer.kernel(5)[0].flip(0), torch.tensor(expected, dtype=torch.float64))


def test_the_kernel_starts_as_s4d_lin() -> None:
    layer = StateSpace(50, 8, bidirectional=True)
    torch.testing.assert_close(-layer.log_decay.exp(), torch.full((50, 4), -0.5))
    torch.testing.assert_close(layer.frequency[7], math.pi * torch.arange(4.0))
    steps = layer.log_step.exp()
    assert 0.001 <= steps.min() < 0.005
    assert 0.02 < steps.max() <= 0.1
    assert layer.kernel(9).shape == (50, 17)


def test_small_steps_keep_their_precision() -> None:
    layer = StateSpace(4, 64, bidirectional=True)
    with torch.no_grad():
        layer.log_step.fill_(math.log(1e-5))
        layer.skip.zero_()
    single = layer.kernel(20)
    torch.testing.assert_close(single.double(), layer.double().kernel(20), rtol=2e-4, atol=1e-9)


def test_a_prepared_kernel_is_forgotten_in_training_and_with_other_weights() -> None:
    layer, hidden = state_space().eval(), torch.randn(2, 3, 40, dtype=torch.float64)
    layer.prepare(40)
    kept = layer(hidden)
    assert "prepared" not in layer.state_dict()
    scrambled(layer)
    assert torch.equal(layer(hidden), kept)
    assert not torch.allclose(layer(hidden[..., :30]), kept[..., :30]), "another length has another kernel"
    torch.testing.assert_close(layer(hidden[..., :30]), literal(layer, hidden[..., :30]), rtol=1e-10, atol=1e-10)
    changed = layer.train().eval()(hidden)
    assert not torch.allclose(changed, kept)
    layer.prepare(40)
    layer.load_state_dict(state_space().state_dict())
    torch.testing.assert_close(layer(hidden), kept, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("in_channels", [1, 3])
def test_the_network_in_eval_mode_is_the_one_that_was_trained(in_channels: int) -> None:
    encoder = S4D(in_channels, 6, width=8, depth=3, state_dim=8).double()
    scrambled(encoder)
    signals = torch.randn(2, in_channels, 333, dtype=torch.float64)
    for call in (encoder, encoder.tokens, encoder.features):
        trained = call(signals)
        encoder.eval()
        torch.testing.assert_close(call(signals), trained, rtol=1e-10, atol=1e-10)
        encoder.train()


def test_embedding_and_features_by_hand() -> None:
    encoder = S4D(2, 6, width=4, depth=2, state_dim=4, stem_kernel_size=7, stem_stride=3).double().eval()
    scrambled(encoder)
    signals = torch.randn(3, 2, 100, dtype=torch.float64)
    stem = nn.functional.conv1d(signals, encoder.stem.weight, encoder.stem_bias, stride=3, padding=3)
    hidden, pooled = stem.transpose(1, 2), []
    for block in encoder.blocks:
        assert isinstance(block, Block)
        filtered = literal(block.state_space, block.norm(hidden).transpose(1, 2)).transpose(1, 2)
        value, gate = block.mix(nn.functional.gelu(filtered)).chunk(2, dim=2)
        hidden = hidden + value * torch.sigmoid(gate)
        last = encoder.norm(hidden) if block is encoder.blocks[-1] else hidden
        pooled += [last.mean(1), last.amax(1)]
    torch.testing.assert_close(encoder.tokens(signals), encoder.norm(hidden), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(encoder.features(signals), torch.cat(pooled, dim=1), rtol=1e-10, atol=1e-10)
    embeddings = encoder.linear(torch.cat(pooled[-2:], dim=1))
    torch.testing.assert_close(encoder(signals), embeddings, rtol=1e-10, atol=1e-10)


def test_tokens_see_the_future_only_in_two_directions() -> None:
    signals = torch.randn(1, 1, 300)
    later = signals.clone()
    later[..., 208:] += 1  # a stem of 15 samples looks 7 ahead: token 40 is at sample 200
    for bidirectional in (True, False):
        encoder = S4D(bidirectional=bidirectional, width=8, depth=2).eval()
        difference = (encoder.tokens(signals) - encoder.tokens(later)).abs().amax((0, 2))
        assert difference[41:].min() > 1e-6
        assert (difference[:41].max() > 1e-6) == bidirectional


def test_parameters_counted_by_hand() -> None:
    block = 64 + 2 * 64 * 32 + 2 * 2 * 64 * 32 + 64 + 2 * 64 + (64 * 128 + 128)
    count = sum(parameter.numel() for parameter in build_encoder("s4d").parameters())
    assert count == (15 * 64 + 64) + 4 * block + 2 * 64 + (128 * 128 + 128) == 101_120


def test_any_length_and_options_that_do_not_fit() -> None:
    encoder = S4D(width=4, depth=1)
    for mode in (True, False):
        for num_samples in (1, 14, 250, 2499):
            assert encoder.train(mode)(torch.randn(2, 1, num_samples)).shape == (2, 128)
    with pytest.raises(ConfigError, match="0 samples are too short"):
        encoder.num_tokens(0)
    with pytest.raises(ConfigError, match=r"state_dim: .*multiple of 2"):
        build_encoder("s4d", {"state_dim": 7})


def test_dropout_is_drawn_from_the_seed_in_training_only() -> None:
    encoder, signals = S4D(width=4, depth=2, dropout=0.5), torch.randn(4, 1, 500)
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(encoder(signals))
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    encoder.eval()
    assert torch.equal(encoder(signals), encoder(signals))


@pytest.mark.parametrize("mode", [True, False])
def test_half_precision_trains(mode: bool) -> None:
    """State spaces keep full precision under autocast."""
    encoder, signals = S4D(2, 8, width=8, depth=2).train(mode), torch.randn(2, 2, 500)
    exact = encoder(signals)
    with torch.autocast("cpu", torch.bfloat16):
        rough = encoder(signals)
    rough.sum().backward()
    torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.1)
    assert all(torch.isfinite(parameter.grad).all() for parameter in encoder.parameters() if parameter.grad is not None)


def exported(encoder: Encoder, folder: Path, num_samples: int) -> onnx.ModelProto:
    """Save an encoder and write its ONNX file."""
    policy = FramePolicy(
        num_samples=num_samples, sampling_rate=100, leads=STANDARD_LEADS if encoder.in_channels > 1 else ()
    )
    save_encoder(folder, encoder, about(policy) | {"encoder": describe_encoder(encoder)})
    assert finish_encoder(folder) == ""
    return onnx.load(folder / "model.onnx")


@pytest.mark.parametrize(
    ("in_channels", "pca"), [*(pytest.param(number, False, marks=pytest.mark.slow) for number in (1, 12)), (12, True)]
)
def test_the_onnx_file_has_constant_kernels_and_equals_torch(in_channels: int, pca: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    encoder: Encoder = S4D(in_channels, 8, width=16, depth=2, stem_stride=2)
    scrambled(encoder)
    encoder = (PCAEncoder(encoder, embedding_dim=8) if pca else encoder).eval()
    model = exported(encoder, tmp_path, 510)
    used = [node.op_type for node in model.graph.node]
    assert not {"DFT", "Exp", "Cos", "Sin", "Complex"} & set(used)
    shapes = [tuple(item.dims) for item in model.graph.initializer]
    assert shapes.count((16, 1, 509)) == 2, "255 positions in both directions"
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    signals, mask = torch.randn(3, in_channels, 510), torch.rand(3, in_channels) < 0.7
    given = {"signals": signals.numpy()}
    if in_channels > 1:
        given["lead_mask"] = mask.numpy()
    (found,) = session.run(None, given)
    expected = encoder(signals, mask if in_channels > 1 else None).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
