"""VICReg's loss against loops over instances and dimensions, and closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.losses import VICRegLoss


def views(size: tuple[int, ...] = (7, 2, 5), seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal(embeddings: Tensor, invariance: float, variance: float, covariance: float, epsilon: float) -> float:
    """Compute equations 1 to 6 of the paper in loops, with the distance averaged over dimensions as in algorithm 1."""
    count, _, size = embeddings.shape
    values = embeddings.tolist()
    distance = 0.0
    for first, second in values:
        for one, other in zip(first, second, strict=True):
            distance += (one - other) ** 2 / (count * size)
    hinge = others = 0.0
    for view in (0, 1):
        columns = [[values[instance][view][dim] for instance in range(count)] for dim in range(size)]
        means = [sum(column) / count for column in columns]
        for i in range(size):
            for j in range(size):
                cell = 0.0
                for instance in range(count):
                    cell += (columns[i][instance] - means[i]) * (columns[j][instance] - means[j]) / (count - 1)
                if i == j:
                    hinge += max(0.0, 1 - math.sqrt(cell + epsilon)) / size
                else:
                    others += cell**2 / size
    return invariance * distance + variance * hinge + covariance * others


@pytest.mark.parametrize("weights", [(25, 25, 1, 1e-4), (1, 0, 0, 1e-4), (0, 1, 0, 1e-2), (0, 0, 1, 1e-4)])
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_equals_the_equations(weights: tuple[float, ...], scale: float) -> None:
    embeddings = scale * views()
    assert VICRegLoss(*weights)(embeddings).item() == pytest.approx(literal(embeddings, *weights), abs=1e-10)


def test_closed_forms() -> None:
    """Equal views have no distance; a collapse costs the hinge of both views; a wide spread costs nothing."""
    collapsed = torch.full((4, 2, 3), 7.0, dtype=torch.float64)
    assert VICRegLoss()(collapsed).item() == pytest.approx(25 * 2 * (1 - 0.01))
    corners = torch.tensor([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])
    assert VICRegLoss()(corners.unsqueeze(1).repeat(1, 2, 1)).item() == pytest.approx(0, abs=1e-12)


def test_a_collapse_has_a_finite_gradient_and_the_order_of_views_does_not_matter() -> None:
    collapsed = torch.ones(4, 2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(VICRegLoss()(collapsed), collapsed)
    assert gradient.isfinite().all()
    given = views()
    torch.testing.assert_close(VICRegLoss()(given), VICRegLoss()(given.flip(1)))


@pytest.mark.parametrize("size", [(1, 2, 4), (6, 3, 4), (6, 4)])
def test_other_shapes_are_refused(size: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(B, 2, E\) with B of 2 or more"):
        VICRegLoss()(torch.zeros(size))
