"""Gather tensors of all ranks, with exact gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gather_ranks(values: Tensor) -> Tensor:
    """Return the rows of all ranks in the order of ranks: (b, ...) -> (B, ...).

    Every rank may compute the same loss from them. The gradients of the ranks, averaged, are those of one process.
    """
    gathered: Tensor = _GatherRanks.apply(values)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRanks(torch.autograd.Function):
    """The gradient of a rank's rows is the sum of the gradients that all ranks have for them.

    Gradients are made contiguous first: gloo reduces a tensor's memory, whatever its strides say.
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
