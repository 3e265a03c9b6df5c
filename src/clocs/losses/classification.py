"""The supervised loss: one class out of many, or each class for itself."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from clocs.losses.full_precision import full_precision


def classification(logits: Tensor, targets: Tensor, *, multi_label: bool) -> Tensor:
    """Cross-entropy of logits (N, C) and targets (N, C) bool -> scalar.

    One class each: softmax cross-entropy, mean over N; every row must be one-hot, since one without a class, or
    with two, would pass silently. ``multi_label``: binary cross-entropy, mean over all N x C.
    Half types are computed, and returned, in float32.
    """
    if logits.ndim != 2 or logits.shape != targets.shape or not logits.numel():
        given = f"{tuple(logits.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"logits and targets must both be (N, C), instances x classes, not {given}")
    logits = full_precision(logits)
    if multi_label:
        return binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    labels = targets.count_nonzero(1)
    if not (labels == 1).all():
        wrong = int((labels != 1).sum())
        raise ValueError(
            f"{wrong} of {len(targets)} instances do not have exactly one class; "
            "leave them out, or set multi_label=true (method.multi_label=true for clocs pretrain)"
        )
    return cross_entropy(logits, targets.to(logits.dtype))
