"""The loss of CPC against loops over instances, positions and steps, and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.losses import CPCLoss
from clocs.losses.cpc import Negatives

B, P, K, T, D = 5, 3, 2, 7, 4
ALL: tuple[Negatives, ...] = ("all", "instances", "times")


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return predictions, tokens and targets; every instance has targets of its own."""
    draws = torch.Generator().manual_seed(seed)
    predictions = torch.randn((B, P, K, D), generator=draws, dtype=torch.float64)
    tokens = torch.randn((B, T, D), generator=draws, dtype=torch.float64)
    return predictions, tokens, torch.randint(T, (B, P, K), generator=draws)


def literal(predictions: Tensor, tokens: Tensor, targets: Tensor, negatives: Negatives) -> float:
    """Compute equation 4 with the candidates listed one by one."""

    def score(one: Tensor, other: Tensor) -> float:
        return sum(float(a) * float(b) for a, b in zip(one, other, strict=True))

    total = 0.0
    for i in range(B):
        for p in range(P):
            for k in range(K):
                prediction, target = predictions[i, p, k], int(targets[i, p, k])
                candidates = [tokens[i, target]]
                if negatives in ("all", "instances"):
                    candidates += [tokens[j, int(targets[j, p, k])] for j in range(B) if j != i]
                if negatives in ("all", "times"):
                    candidates += [tokens[i, t] for t in range(T) if t != target]
                total -= math.log(
                    math.exp(score(prediction, tokens[i, target]))
                    / sum(math.exp(score(prediction, each)) for each in candidates)
                )
    return total / (B * P * K)


@pytest.mark.parametrize("negatives", ALL)
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_equation(negatives: Negatives, seed: int) -> None:
    given = inputs(seed)
    assert CPCLoss(negatives)(*given).item() == pytest.approx(literal(*given, negatives), abs=1e-10)


@pytest.mark.parametrize(("negatives", "candidates"), [("all", B + T - 1), ("instances", B), ("times", T)])
def test_zero_predictions_give_the_loss_of_chance(negatives: Negatives, candidates: int) -> None:
    predictions, tokens, targets = inputs()
    assert CPCLoss(negatives)(0 * predictions, tokens, targets).item() == pytest.approx(math.log(candidates))


@pytest.mark.parametrize("negatives", ALL)
def test_gradients_reach_predictions_and_tokens(negatives: Negatives) -> None:
    predictions, tokens, targets = inputs()
    predictions, tokens = predictions[:3, :2].requires_grad_(), tokens[:3].requires_grad_()
    loss = CPCLoss(negatives)
    assert torch.autograd.gradcheck(lambda *given: loss(*given, targets[:3, :2]), (predictions, tokens))


def test_large_scores_do_not_overflow() -> None:
    predictions, tokens, targets = inputs()
    assert CPCLoss()(1e3 * predictions.float(), 1e3 * tokens.float(), targets).isfinite()


def test_other_shapes_are_refused() -> None:
    predictions, tokens, targets = inputs()
    for given in (
        (predictions[:, :, 0], tokens, targets),
        (predictions, tokens[:3], targets),
        (predictions, tokens[..., :3], targets),
        (predictions[:0], tokens[:0], targets[:0]),
    ):
        with pytest.raises(ValueError, match=r"Expected predictions \(B, P, K, D\)"):
            CPCLoss()(*given)
