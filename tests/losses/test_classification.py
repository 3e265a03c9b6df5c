"""The supervised loss against both cross-entropies written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.losses import ClassificationLoss


def examples(multi_label: bool, count: int = 7, classes: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(count, classes, generator=generator, dtype=torch.float64)
    if multi_label:
        return logits.requires_grad_(), torch.rand(count, classes, generator=generator) < 0.4
    chosen = torch.randint(classes, (count,), generator=generator)
    return logits.requires_grad_(), torch.eye(classes, dtype=torch.bool)[chosen]


def literal(logits: Tensor, targets: Tensor, multi_label: bool) -> float:
    losses = []
    for row, truths in zip(logits.tolist(), targets.tolist(), strict=True):
        total = sum(math.exp(logit) for logit in row)
        for logit, truth in zip(row, truths, strict=True):
            probability = 1 / (1 + math.exp(-logit)) if multi_label else math.exp(logit) / total
            if truth:
                losses.append(-math.log(probability))
            elif multi_label:
                losses.append(-math.log(1 - probability))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("multi_label", [False, True])
def test_equals_the_definition_written_out(multi_label: bool) -> None:
    logits, targets = examples(multi_label)
    loss = ClassificationLoss(multi_label)(logits, targets)
    assert loss.item() == pytest.approx(literal(logits, targets, multi_label), rel=0, abs=1e-12)


@pytest.mark.parametrize(("multi_label", "value"), [(False, math.log(5)), (True, math.log(2))])
def test_uniform_predictions(multi_label: bool, value: float) -> None:
    _, targets = examples(multi_label)
    loss = ClassificationLoss(multi_label)(torch.zeros(7, 5).double(), targets)
    assert loss.item() == pytest.approx(value, rel=0, abs=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_order_of_instances_and_classes_does_not_matter(multi_label: bool) -> None:
    logits, targets = examples(multi_label)
    turned = ClassificationLoss(multi_label)(logits.flip(0, 1), targets.flip(0, 1))
    assert ClassificationLoss(multi_label)(logits, targets).item() == pytest.approx(turned.item(), abs=1e-12)


@pytest.mark.parametrize("multi_label", [False, True])
def test_gradients_are_the_derivatives_and_reach_all(multi_label: bool) -> None:
    logits, targets = examples(multi_label)
    assert torch.autograd.gradcheck(lambda each: ClassificationLoss(multi_label)(each, targets), (logits,))
    (gradient,) = torch.autograd.grad(ClassificationLoss(multi_label)(logits, targets), logits)
    probabilities = logits.sigmoid() / 5 if multi_label else logits.softmax(1)
    torch.testing.assert_close(gradient, (probabilities - targets.double() / (5 if multi_label else 1)) / 7)
    assert gradient.all()


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_confident_errors_stay_finite(multi_label: bool, dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, -1e4]], dtype=dtype, requires_grad=True)
    loss = ClassificationLoss(multi_label)(logits, torch.tensor([[False, True]]))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(1e4 if multi_label else 2e4, rel=1e-2)
    assert gradient.isfinite().all()


def test_refuses_rows_that_are_not_one_hot() -> None:
    targets = torch.tensor([[True, False], [True, True], [False, False]])
    with pytest.raises(ValueError, match=r"2 of 3 instances .* multi_label=true"):
        ClassificationLoss(False)(torch.zeros(3, 2), targets)


@pytest.mark.parametrize(("shape", "other"), [((4, 3), (4, 2)), ((4, 3), (4, 1)), ((4,), (4,)), ((0, 3), (0, 3))])
@pytest.mark.parametrize("multi_label", [False, True])
def test_refuses_other_shapes(shape: tuple[int, ...], other: tuple[int, ...], multi_label: bool) -> None:
    with pytest.raises(ValueError, match="instances x classes"):
        ClassificationLoss(multi_label)(torch.zeros(shape), torch.zeros(other, dtype=torch.bool))
