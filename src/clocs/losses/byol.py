"""Loss of BYOL: the distance of predictions from the outputs of a moving average for another view."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import mse_loss

from clocs.losses.cosine import units
from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss


@LOSSES.register("byol")
class BYOLLoss(Loss):
    """Distance of predictions from targets (Grill et al., 2020). Targets receive no gradient.

    With ``normalized``, a zero vector has cosine 0 and no gradient. Half types are computed, and returned, in float32.

    Args:
        normalized: False: the mean squared error over all elements, as in the CLOCS paper. True: 2 - 2 cos, the squared
            distance of unit vectors, as a mean over instances (Grill et al., 2020).

    Example:
        >>> import torch
        >>> loss = BYOLLoss(normalized=True)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.)
    """

    def __init__(self, normalized: bool = False) -> None:
        super().__init__()
        self.normalized = normalized
        self.check_options()

    def forward(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            predictions: (N, E) floats.
            targets: (N, E) floats.

        Returns:
            A scalar.

        Raises:
            ValueError: The shapes are wrong.
        """
        if predictions.ndim != 2 or predictions.shape != targets.shape or len(predictions) < 1:
            shapes = f"{tuple(predictions.shape)} and {tuple(targets.shape)}"
            raise ValueError(f"Expected predictions and targets of the same shape (N, E), got {shapes}")
        predictions, targets = full_precision(predictions), full_precision(targets.detach())
        if self.normalized:
            return 2 - 2 * (units(predictions) * units(targets)).sum(-1).mean()
        return mse_loss(predictions, targets)
