"""CPC against its equations in loops; the times that it predicts from; and what a token sees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import CNN, Encoder, ResNet, wrap
from clocs.methods import CPC, Batch

B, SAMPLES = 4, 250
TOKENS = 13
"""Number of tokens of the small encoder: 250 samples, a stride of 5 and two blocks."""


def made(leads: int = 1, **options: Any) -> CPC:
    torch.manual_seed(0)
    encoder = ResNet(in_channels=leads, embedding_dim=6, width=3, depth=2)
    return CPC(encoder, **{"context_dim": 5, "steps": 3, **options}).double()


def batch_for(method: CPC, seed: int = 0) -> Batch:
    draws = torch.Generator().manual_seed(seed)
    size = (B, 1, method.encoder.in_channels, SAMPLES)
    views = method.views(torch.randn(size, generator=draws, dtype=torch.float64), draws)
    return {"views": views, **method.draw_masks(views, draws)}


def contexts(tokens: Tensor, gru: nn.GRU) -> list[Tensor]:
    """Compute a GRU (Cho et al., 2014) step by step, with the gates reset, update and new."""
    weights = {name: value.detach() for name, value in gru.named_parameters()}
    state = torch.zeros(gru.hidden_size, dtype=tokens.dtype)
    found = []
    for token in tokens:
        given = weights["weight_ih_l0"] @ token + weights["bias_ih_l0"]
        kept = weights["weight_hh_l0"] @ state + weights["bias_hh_l0"]
        (reset, update, new), (old_reset, old_update, old_new) = given.chunk(3), kept.chunk(3)
        gate = torch.sigmoid(update + old_update)
        proposal = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
        state = (1 - gate) * proposal + gate * state
        found.append(state)
    return found


def literal(method: CPC, batch: Batch) -> float:
    """Compute equations 3 and 4 over instances, times and steps."""
    with torch.no_grad():
        tokens = method.encoder.tokens(batch["views"][:, 0])
    size, last = tokens.shape[2], method.first_step + method.steps - 1
    predictors = method.predictors.weight.detach()
    total, terms = 0.0, 0
    for i in range(B):
        before = contexts(tokens[i], method.context)
        for t in range(TOKENS - last):
            for k in range(method.first_step, last + 1):
                number = k - method.first_step
                prediction = predictors[number * size : (number + 1) * size] @ before[t]
                others = [tokens[j, t + k] for j in range(B) if j != i]
                others += [tokens[i, s] for s in range(TOKENS) if s != t + k]
                scores = torch.stack([tokens[i, t + k], *others]) @ prediction
                total -= float(torch.log(scores[0].exp() / scores.exp().sum()))
                terms += 1
    return total / terms


@pytest.mark.parametrize("first_step", [1, 4])
def test_the_loss_equals_the_equations(first_step: int) -> None:
    method = made(first_step=first_step)
    batch = batch_for(method)
    assert method.training_step(batch, 0).item() == pytest.approx(literal(method, batch), abs=1e-10)


def test_times_to_predict_from_are_all_or_drawn_and_stay_within_the_frame() -> None:
    assert batch_for(made())["positions"].tolist() == [list(range(TOKENS - 3))] * B
    method = made(positions=4)
    assert method.is_stochastic
    assert not made().is_stochastic
    found = batch_for(method)["positions"]
    assert found.shape == (B, 4)
    assert all(len(set(row)) == 4 for row in found.tolist())
    assert len({tuple(row) for row in found.tolist()}) > 1
    assert int(found.min()) >= 0
    assert int(found.max()) < TOKENS - 3
    outputs = method(batch_for(method))
    assert torch.equal(outputs["targets"], found.unsqueeze(2) + torch.tensor([1, 2, 3]))
    everything = batch_for(made(positions=1000))["positions"]
    assert everything.sort(1).values.tolist() == [list(range(TOKENS - 3))] * B


def test_a_prediction_depends_only_on_earlier_tokens() -> None:
    method = made()
    tokens = torch.randn(B, TOKENS, 6, dtype=torch.float64, requires_grad=True)
    hidden, _ = method.context(tokens)
    (gradient,) = torch.autograd.grad(hidden[:, 5].sum(), tokens)
    assert gradient[:, :6].abs().sum(2).gt(0).all()
    assert not gradient[:, 6:].any()


def test_frames_with_too_few_tokens_and_encoders_without_tokens_are_refused() -> None:
    with pytest.raises(ConfigError, match="up to 13 tokens ahead, but frames of 250 samples have 13 tokens"):
        batch_for(made(steps=13))
    assert batch_for(made(steps=12))["positions"].tolist() == [[0]] * B
    with pytest.raises(ConfigError, match="needs an encoder with tokens"):
        CPC(wrap(nn.Flatten(), in_channels=1, embedding_dim=SAMPLES))
    assert made().unsupported_frames(2, 2) == "one segment a frame"


@pytest.mark.parametrize(("kind", "seen", "apart"), [(CNN, 388, 216), (ResNet, 1065, 80)])
def test_what_a_token_sees(kind: type[Encoder], seen: int, apart: int) -> None:
    """The samples on which a token in the middle depends, as the documentation states them."""
    torch.manual_seed(0)
    encoder = kind(in_channels=1, embedding_dim=8)
    signals = torch.randn(1, 1, 2500, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tokens = encoder.eval().tokens(signals)
    starts, ends = [], []
    for at in (tokens.shape[1] // 2 - 1, tokens.shape[1] // 2):
        (gradient,) = torch.autograd.grad(tokens[0, at].sum(), signals, retain_graph=True)
        reached = gradient[0, 0].nonzero().flatten()
        starts.append(int(reached.min()))
        ends.append(int(reached.max()))
    assert abs(starts[1] - starts[0] - apart) <= apart // 4
    assert seen - 100 < ends[0] - starts[0] + 1 <= seen


def test_training_finds_the_next_tokens_of_periodic_signals() -> None:
    """Sines of random rate and phase: the loss falls clearly below that of a guess."""
    method = made(steps=2, context_dim=16)
    draws = torch.Generator().manual_seed(1)
    rates, phases = torch.rand((2, 16, 1, 1, 1), generator=draws, dtype=torch.float64)
    views = torch.sin(6.28 * (phases + (5 + 20 * rates) * torch.linspace(0, 1, SAMPLES, dtype=torch.float64)))
    batch = {"views": views, **method.draw_masks(views, draws)}
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    losses = []
    for step in range(30):
        optimizer.zero_grad()
        loss = method.training_step(batch, step)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 1
