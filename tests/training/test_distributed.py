"""BatchNorm that spans ranks, without ranks: ``test_ranks.py`` has real ones."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from clocs.training.distributed import GlobalBatchNorm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_statistics_and_type_are_those_of_torch(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks that hold the same have the statistics of one; torch sums half types in float32."""
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lambda values: values.mul_(2))
    values = (0.5 + 0.1 * torch.randn(64, 6, 1, 500, generator=torch.Generator().manual_seed(0))).to(dtype)
    theirs, ours = nn.BatchNorm2d(6), GlobalBatchNorm(6)
    expected, found = theirs(values), ours(values)
    assert found.dtype == expected.dtype == dtype
    rounding = {torch.float32: 2e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}[dtype]  # a last bit of 4.9
    torch.testing.assert_close(found, expected, rtol=0, atol=rounding)
    mean, variance = _statistics(ours)
    torch.testing.assert_close(mean, _statistics(theirs)[0], rtol=1e-5, atol=0)
    unbiased = values.double().var((0, 2, 3), correction=0) * 64_000 / 63_999  # over both ranks, 2 x 64 x 500
    torch.testing.assert_close(variance.double(), 0.9 + 0.1 * unbiased, rtol=1e-6, atol=0)


def _statistics(norm: nn.Module) -> tuple[Tensor, Tensor]:
    return norm.get_buffer("running_mean"), norm.get_buffer("running_var")
