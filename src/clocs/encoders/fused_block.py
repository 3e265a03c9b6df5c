"""BatchNorm, ReLU, max pooling by 2 and dropout as one differentiable function for CPUs.

Torch's four functions store indices and Boolean masks, which are slow on a CPU. This one uses float arithmetic on
(N, L, C) memory and halves the time of a training step (docs/background/performance.md). The values are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clocs.encoders.convolution import convolve


def fused_block(hidden: Tensor, convolution: nn.Conv1d, norm: nn.BatchNorm1d, dropout: float) -> Tensor:
    """Apply convolution, BatchNorm in training mode, ReLU, max pooling by 2 and dropout: (N, C, L) -> (N, C', L')."""
    outputs = convolve(hidden, convolution)
    inputs = (outputs, norm.weight, norm.bias, norm.eps, dropout)
    pooled, mean, variance = _NormReluPoolDrop.apply(*inputs)  # type: ignore[no-untyped-call]
    _update_running_statistics(norm, mean, variance, outputs.shape[0] * outputs.shape[1])
    result: Tensor = pooled.transpose(1, 2)
    return result


@torch.no_grad()
def _update_running_statistics(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Update running means and unbiased variances as BatchNorm does."""
    if norm.running_mean is None or norm.running_var is None or norm.num_batches_tracked is None:
        return
    norm.num_batches_tracked += 1
    momentum = 1 / float(norm.num_batches_tracked) if norm.momentum is None else norm.momentum
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(variance * count / max(count - 1, 1), momentum)


def _dropout_mask(shape: torch.Size, dropout: float, dtype: torch.dtype) -> Tensor:
    """Draw factors: 0 with probability ``dropout`` (to 2^-16), else 1 / (1 - dropout). Torch's generator seeds them."""
    count, limit = shape.numel(), round(dropout * 2**16)
    source = np.random.SFC64(int(torch.randint(2**63 - 1, ())))
    bits = source.random_raw(-(-count // 4)).view(np.uint16)[:count]
    kept = torch.from_numpy((bits >= limit).astype(np.float32)).to(dtype)
    return kept.mul_(2**16 / (2**16 - limit)).view(shape)


class _NormReluPoolDrop(torch.autograd.Function):
    """Function from (N, L, C) to (N, L // 2, C) and the batch's mean and variance (C,)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, gain: Tensor, shift: Tensor, eps: float, dropout: float) -> Any:
        """Compute the outputs. ``values``, the output of a convolution, is overwritten."""
        batch, length, channels = values.shape
        count, even = batch * length, length // 2 * 2
        rows = values.view(batch, -1)
        mean = rows.sum(0).view(length, channels).sum(0) / count
        rows -= mean.repeat(length)
        variance = rows.square().sum(0).view(length, channels).sum(0) / count
        scale = torch.rsqrt(variance + eps)
        scaled = torch.addcmul(shift.repeat(length), rows, (gain * scale).repeat(length)).view_as(values)
        first, second = scaled[:, 0:even:2], scaled[:, 1:even:2]
        pooled = torch.maximum(first, second).relu_()
        gate = torch.gt(pooled, 0, out=torch.empty_like(pooled))
        if dropout:
            gate *= _dropout_mask(pooled.shape, dropout, pooled.dtype)
            pooled *= gate
        to_first = torch.ge(first, second, out=torch.empty_like(pooled))
        ctx.save_for_backward(values, gain, scale, gate, to_first)
        ctx.mark_non_differentiable(mean, variance)
        return pooled, mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Compute the gradients through dropout, ReLU and pooling together, then through BatchNorm."""
        centred, gain, scale, gate, to_first = ctx.saved_tensors
        batch, length, channels = centred.shape
        count, even = batch * length, length // 2 * 2
        pooled = gradients[0] * gate
        inner = torch.empty_like(centred)
        inner[:, even:] = 0
        firsts = pooled * to_first
        inner[:, 0:even:2] = firsts
        torch.sub(pooled, firsts, out=inner[:, 1:even:2])
        rows, centred = inner.view(batch, -1), centred.view(batch, -1)
        shift_gradient = rows.sum(0).view(length, channels).sum(0)
        gain_gradient = (rows * centred).sum(0).view(length, channels).sum(0) * scale
        rows.addcmul_(centred, (gain_gradient * scale / -count).repeat(length).expand_as(rows))
        rows -= (shift_gradient / count).repeat(length)
        rows *= (gain * scale).repeat(length)
        return inner, gain_gradient, shift_gradient, None, None
