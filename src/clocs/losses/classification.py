"""Supervised loss: softmax or binary cross-entropy."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss


@LOSSES.register("classification")
class ClassificationLoss(Loss):
    """Cross-entropy of logits and boolean targets.

    Half types are computed, and returned, in float32.

    Args:
        multi_label: False: softmax cross-entropy, the mean over instances. Every row must have exactly one class.
            True: binary cross-entropy, the mean over instances and classes.

    Example:
        >>> import torch
        >>> loss = ClassificationLoss()
        >>> loss(torch.zeros(3, 2), torch.tensor([[True, False], [True, False], [False, True]]))
        tensor(0.6931)
    """

    def __init__(self, multi_label: bool = False) -> None:
        super().__init__()
        self.multi_label = multi_label
        self.check_options()

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            logits: (N, C) floats.
            targets: (N, C) bool.

        Returns:
            A scalar.

        Raises:
            ValueError: The shapes differ, or a row does not have exactly one class and ``multi_label`` is false.
        """
        if logits.ndim != 2 or logits.shape != targets.shape or not logits.numel():
            shapes = f"{tuple(logits.shape)} and {tuple(targets.shape)}"
            raise ValueError(f"Expected logits and targets of the same shape (N, C), instances x classes, got {shapes}")
        logits = full_precision(logits)
        if self.multi_label:
            return binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
        num_classes = targets.count_nonzero(1)
        if not (num_classes == 1).all():
            raise ValueError(
                f"{int((num_classes != 1).sum())} of {len(targets)} instances do not have exactly one class. "
                "Leave them out, or set multi_label=true (method.multi_label=true for clocs pretrain)."
            )
        return cross_entropy(logits, targets.to(logits.dtype))
