"""MT-SSL's loss against the binary cross-entropy written out, task by task."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.losses import MultiTaskLoss


def answers(count: int = 7, tasks: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(count, tasks, generator=generator, dtype=torch.float64)
    return logits.requires_grad_(), torch.rand(count, tasks, generator=generator) < 0.5


def literal(logits: Tensor, applied: Tensor) -> float:
    tasks = []
    for column, truths in zip(logits.T.tolist(), applied.T.tolist(), strict=True):
        total = 0.0
        for logit, truth in zip(column, truths, strict=True):
            probability = 1 / (1 + math.exp(-logit))
            total -= math.log(probability if truth else 1 - probability)
        tasks.append(total / len(column))
    return sum(tasks) / len(tasks)


@pytest.mark.parametrize("tasks", [1, 3, 6])
def test_equals_the_definition_written_out(tasks: int) -> None:
    logits, applied = answers(tasks=tasks)
    assert MultiTaskLoss()(logits, applied).item() == pytest.approx(literal(logits, applied), rel=0, abs=1e-12)


def test_uniform_predictions_cost_log_two() -> None:
    _, applied = answers()
    assert MultiTaskLoss()(torch.zeros(7, 6).double(), applied).item() == pytest.approx(math.log(2), rel=0, abs=1e-12)


def test_order_of_instances_and_tasks_does_not_matter() -> None:
    logits, applied = answers()
    turned = MultiTaskLoss()(logits.flip(0, 1), applied.flip(0, 1))
    assert MultiTaskLoss()(logits, applied).item() == pytest.approx(turned.item(), rel=0, abs=1e-12)


def test_gradients_are_the_derivatives_and_reach_all() -> None:
    logits, applied = answers()
    assert torch.autograd.gradcheck(lambda each: MultiTaskLoss()(each, applied), (logits,))
    (gradient,) = torch.autograd.grad(MultiTaskLoss()(logits, applied), logits)
    expected = (logits.sigmoid() - applied.double()) / logits.numel()
    torch.testing.assert_close(gradient, expected)
    assert gradient.all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_confident_errors_stay_finite(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -1e4]], dtype=dtype, requires_grad=True)
    loss = MultiTaskLoss()(logits, torch.tensor([[False, True]]))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(1e4, rel=1e-2)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, -0.5]], dtype=dtype))


@pytest.mark.parametrize(("shape", "other"), [((4, 3), (4, 2)), ((4, 3), (4, 1)), ((4,), (4,)), ((0, 3), (0, 3))])
def test_refuses_other_shapes(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="instances x tasks"):
        MultiTaskLoss()(torch.zeros(shape), torch.zeros(other, dtype=torch.bool))
