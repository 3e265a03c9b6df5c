"""Gather tensors of all ranks, with exact gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gather_ranks(values: Tensor) -> Tensor:
    """Return the rows of all ranks in the order of ranks: (b, ...) -> (B, ...).

    If every rank computes the same loss from them, the averaged gradients of the ranks are those of one process.
    """
    gathered: Tensor = _GatherRanks.apply(values)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRanks(torch.autograd.Function):
    """Gather whose gradient of a rank's rows is the sum of the gradients of all ranks.

    Gradients are made contiguous first, because gloo reduces memory without regard to strides.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        parts = [torch.empty_like(values, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, values.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size())[dist.get_rank()]
