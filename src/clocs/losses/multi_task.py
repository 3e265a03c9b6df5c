"""Loss of MT-SSL: predict for each augmentation whether it was applied to an instance."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss


@LOSSES.register("multi_task")
class MultiTaskLoss(Loss):
    """Binary cross-entropy of several binary tasks, averaged over instances and tasks.

    Half types are computed, and returned, in float32.

    Example:
        >>> import torch
        >>> loss = MultiTaskLoss()
        >>> loss(torch.zeros(4, 3), torch.ones(4, 3, dtype=torch.bool))
        tensor(0.6931)
    """

    def forward(self, logits: Tensor, applied: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            logits: (N, T) floats, one per task.
            applied: (N, T) bool, true where the task's augmentation was applied.

        Returns:
            A scalar.

        Raises:
            ValueError: The shapes are wrong.
        """
        if logits.ndim != 2 or logits.shape != applied.shape or not logits.numel():
            shapes = f"{tuple(logits.shape)} and {tuple(applied.shape)}"
            raise ValueError(f"Expected logits and applied of the same shape (N, T), instances x tasks, got {shapes}")
        logits = full_precision(logits)
        return binary_cross_entropy_with_logits(logits, applied.to(logits.dtype))
