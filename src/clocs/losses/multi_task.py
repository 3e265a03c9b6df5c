"""MT-SSL's loss: for each perturbation, was it applied to this instance or not?"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from clocs.losses.full_precision import full_precision


def multi_task(logits: Tensor, applied: Tensor) -> Tensor:
    """Logits (N, T), one binary head a task, applied (N, T) bool -> scalar.

    The mean over tasks of the mean binary cross-entropy over instances; as every instance answers every task,
    the mean over all N x T. Half types are computed, and returned, in float32.
    """
    if logits.ndim != 2 or logits.shape != applied.shape or not logits.numel():
        given = f"{tuple(logits.shape)} and {tuple(applied.shape)}"
        raise ValueError(f"logits and applied must both be (N, T), instances x tasks, not {given}")
    logits = full_precision(logits)
    return binary_cross_entropy_with_logits(logits, applied.to(logits.dtype))
