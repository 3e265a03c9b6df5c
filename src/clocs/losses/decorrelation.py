"""A penalty on correlated dimensions of an embedding (Zbontar et al., 2021)."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss

FLOOR: Final = 1e-6
"""Added to variances, so that a constant dimension has correlation 0."""


@LOSSES.register("decorrelation")
class DecorrelationLoss(Loss):
    """Penalty on correlated dimensions: squared correlations of each dimension with all others.

    They are summed over the other dimensions and averaged over all dimensions, after Zbontar et al. (2021). The loss
    is 0 for uncorrelated dimensions and E - 1 for E equal ones. Half types are computed, and returned, in float32.

    Example:
        >>> import torch
        >>> loss = DecorrelationLoss()
        >>> loss(torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
        tensor(0.)
    """

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            embeddings: (N, E) floats with N of 2 or more.

        Returns:
            A scalar.

        Raises:
            ValueError: The shape is wrong.
        """
        if embeddings.ndim != 2 or len(embeddings) < 2:
            raise ValueError(f"Expected embeddings of shape (N, E) with N of 2 or more, got {tuple(embeddings.shape)}")
        with torch.autocast(embeddings.device.type, enabled=False):
            values = full_precision(embeddings)
            centred = values - values.mean(0)
            scaled = centred / (centred.square().mean(0) + FLOOR).sqrt()
            correlations = scaled.mT @ scaled / len(scaled)
            return (correlations.square().sum() - correlations.diagonal().square().sum()) / embeddings.shape[1]
