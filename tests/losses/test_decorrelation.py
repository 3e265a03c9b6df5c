"""Decorrelation against numpy's correlations and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clocs.losses import DecorrelationLoss


def test_equals_numpys_correlations_squared_and_summed() -> None:
    values = np.random.default_rng(0).normal(size=(40, 6)) @ np.random.default_rng(1).normal(size=(6, 6)) + 3
    others = np.corrcoef(values.T) - np.eye(6)
    found = DecorrelationLoss()(torch.from_numpy(values)).item()
    assert found == pytest.approx((others**2).sum() / 6, rel=1e-5)


def test_equal_and_uncorrelated_dimensions() -> None:
    column = torch.randn(64, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 10
    assert DecorrelationLoss()(column.expand(64, 5)).item() == pytest.approx(4, rel=1e-6)
    apart = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert DecorrelationLoss()(apart).item() == pytest.approx(0, abs=1e-12)


def test_a_constant_dimension_has_a_finite_gradient() -> None:
    values = torch.cat([torch.randn(16, 3, generator=torch.Generator().manual_seed(1)), torch.ones(16, 1)], 1)
    values.requires_grad_()
    torch.autograd.backward(DecorrelationLoss()(values))
    assert values.grad is not None
    assert torch.isfinite(values.grad).all()


def test_half_types_are_computed_in_single() -> None:
    values = torch.randn(32, 4, generator=torch.Generator().manual_seed(2)).bfloat16()
    assert DecorrelationLoss()(values).dtype == torch.float32
    assert DecorrelationLoss()(values).item() == pytest.approx(DecorrelationLoss()(values.float()).item(), rel=1e-6)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(N, E\)"):
        DecorrelationLoss()(torch.zeros(1, 4))
