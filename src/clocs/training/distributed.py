"""Training on several ranks: BatchNorm over the global batch with exact gradients, and common decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from clocs.core.errors import ClocsError

Decided = TypeVar("Decided")
Shared = TypeVar("Shared", bound=nn.Module)


def from_rank_zero(decide: Callable[[], Decided]) -> Decided:
    """Call a function on rank 0 and return its result on every rank.

    Raises:
        ClocsError: On every rank, if rank 0 raises one.
    """
    if not _has_several_ranks():
        return decide()
    result: list[Any] = [_attempt(decide) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(result)
    value, error = result[0]
    if error is not None:
        raise error
    decided: Decided = value
    return decided


def on_every_rank(act: Callable[[], None]) -> None:
    """Call a function on every rank.

    Raises:
        ClocsError: On every rank, if one of them raises it, so that no rank waits for another.
    """
    if not _has_several_ranks():
        return act()
    attempts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(attempts, _attempt(act))
    for rank, (_, error) in enumerate(attempts):
        if error is not None:
            raise type(error)(f"{error}. Rank {rank} of {len(attempts)} raised this, and all ranks stop.")
    return None


def _has_several_ranks() -> bool:
    return dist.is_initialized() and dist.get_world_size() > 1


def _attempt(function: Callable[[], Decided]) -> tuple[Decided | None, ClocsError | None]:
    try:
        return function(), None
    except ClocsError as error:
        return None, error


class _SumOfRanks(torch.autograd.Function):
    """Sum over all ranks. Its gradient is the sum of the gradients of all ranks."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


class GlobalBatchNorm(_BatchNorm):
    """BatchNorm over the batch of all ranks, on any device. Torch's SyncBatchNorm supports GPUs only."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Accept any number of dimensions."""

    def forward(self, values: Tensor) -> Tensor:
        """Normalize values (N, C, ...) of N instances on this rank."""
        if not self.training or not dist.is_initialized() or dist.get_world_size() == 1:
            return super().forward(values)
        dtype = values.dtype
        if dtype in (torch.float16, torch.bfloat16):  # as torch does: sums overflow half types
            values = values.float()
        axes = [axis for axis in range(values.ndim) if axis != 1]
        shape = [1, -1] + [1] * (values.ndim - 2)
        count = _sum(torch.tensor(values.numel() / values.shape[1], dtype=values.dtype, device=values.device))
        mean = _sum(values.sum(axes)) / count
        centred = values - mean.view(shape)
        variance = _sum(centred.square().sum(axes)) / count
        self._update_running_statistics(mean.detach(), variance.detach() * count / (count - 1))
        scaled = centred * torch.rsqrt(variance + self.eps).view(shape)
        return (scaled * self.weight.view(shape) + self.bias.view(shape)).to(dtype)

    @torch.no_grad()
    def _update_running_statistics(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None  # noqa: PT018
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum or 0.0)
        self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum or 0.0)


def _sum(values: Tensor) -> Tensor:
    total: Tensor = _SumOfRanks.apply(values)  # type: ignore[no-untyped-call]
    return total


def share_statistics(module: Shared) -> Shared:
    """Replace every BatchNorm by one that spans all ranks."""
    if torch.cuda.is_available():
        synchronised: Shared = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        return synchronised
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
            shared = GlobalBatchNorm(child.num_features, child.eps, child.momentum)
            shared.load_state_dict(child.state_dict())
            for new, old in zip(shared.parameters(), child.parameters(), strict=True):
                new.requires_grad_(old.requires_grad)
            setattr(module, name, shared)
        else:
            share_statistics(child)
    return module
