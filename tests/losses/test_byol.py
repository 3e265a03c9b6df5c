"""BYOL's loss against closed forms and its definition written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.losses import BYOLLoss


def vectors(seed: int, count: int = 6, size: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, size, generator=generator, dtype=torch.float64).requires_grad_()


def literal(predictions: Tensor, targets: Tensor, normalized: bool) -> float:
    """Compute the mean squared error, or |p/|p| - t/|t||^2 (Grill et al., equation 2)."""
    total = 0.0
    rows: list[list[float]] = predictions.tolist()
    for row, target in zip(rows, targets.tolist(), strict=True):
        p = math.sqrt(sum(x * x for x in row)) if normalized else 1.0
        t = math.sqrt(sum(x * x for x in target)) if normalized else 1.0
        total += sum((x / p - y / t) ** 2 for x, y in zip(row, target, strict=True))
    return total / len(rows) if normalized else total / (len(rows) * len(rows[0]))


@pytest.mark.parametrize("normalized", [False, True])
def test_equals_the_definition_written_out(normalized: bool) -> None:
    predictions, targets = vectors(0), vectors(1)
    expected = literal(predictions, targets, normalized)
    assert BYOLLoss(normalized)(predictions, targets).item() == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize(
    ("scale", "plain", "normalized"), [(1.0, 0.0, 0.0), (3.0, 4.0, 0.0), (-1.0, 4.0, 4.0), (0.0, 1.0, 2.0)]
)
def test_multiples_of_the_target(scale: float, plain: float, normalized: float) -> None:
    """p = s t with all elements 1: (s - 1)^2; and by direction alone 0, 4, or for no direction 2."""
    targets = torch.ones(5, 4, dtype=torch.float64)
    assert BYOLLoss()(scale * targets, targets).item() == pytest.approx(plain, abs=1e-12)
    assert BYOLLoss(normalized=True)(scale * targets, targets).item() == pytest.approx(normalized, abs=1e-12)


def test_orthogonal_directions() -> None:
    values = torch.eye(4, dtype=torch.float64)
    assert BYOLLoss(normalized=True)(values, values.roll(1, 0)).item() == pytest.approx(2)


@pytest.mark.parametrize("normalized", [False, True])
def test_gradients_reach_predictions_only(normalized: bool) -> None:
    predictions, targets = vectors(0), vectors(1)
    assert torch.autograd.gradcheck(lambda each: BYOLLoss(normalized)(each, targets), (predictions,))
    loss = BYOLLoss(normalized)(predictions, targets)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(loss, targets, retain_graph=True)
    (gradient,) = torch.autograd.grad(loss, predictions)
    assert (gradient.norm(dim=-1) > 1e-6).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_extreme_values_stay_finite(dtype: torch.dtype) -> None:
    predictions, targets = (vectors(seed).detach().to(dtype) for seed in (0, 1))
    predictions[0] = targets[1] = 0
    predictions[2] *= 1e4
    predictions.requires_grad_()
    for normalized in (False, True):
        loss = BYOLLoss(normalized)(predictions, targets)
        (gradient,) = torch.autograd.grad(loss, predictions)
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(
            BYOLLoss(normalized)(predictions.double(), targets.double()).item(), rel=1e-5
        )
        assert gradient.isfinite().all()


def test_normalized_works_for_huge_lengths() -> None:
    predictions, targets = vectors(0).detach(), vectors(1).detach()
    huge = (predictions * 1e37).float().requires_grad_()
    loss = BYOLLoss(normalized=True)(huge, targets.float())
    (gradient,) = torch.autograd.grad(loss, huge)
    assert loss.item() == pytest.approx(BYOLLoss(normalized=True)(predictions, targets).item(), rel=1e-5)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(("shape", "other"), [((4, 3), (4, 2)), ((4, 3), (1, 3)), ((4,), (4,)), ((0, 3), (0, 3))])
def test_refuses_other_shapes(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"same shape \(N, E\)"):
        BYOLLoss()(torch.zeros(shape), torch.zeros(other))
