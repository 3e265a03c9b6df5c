"""Loss of VICReg: two views agree, dimensions keep their variance and are not correlated."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from clocs.losses.full_precision import full_precision
from clocs.losses.loss import LOSSES, Loss

Weight = Annotated[float, Field(ge=0)]


@LOSSES.register("vicreg")
class VICRegLoss(Loss):
    """Variance-invariance-covariance regularization (Bardes, Ponce and LeCun, 2022; equations 1 to 6).

    The loss is the weighted sum of three terms:

    - invariance: the squared distance of the two views of an instance, averaged over instances and dimensions;
    - variance: ``max(0, 1 - standard deviation)``, averaged over dimensions and added over both views;
    - covariance: the squared covariances of each dimension with all others, summed, divided by E and added over both
      views.

    Variances and covariances are over the B instances of a view, with divisor B - 1. The paper's equation 5 sums the
    squared differences over the dimensions, its algorithm 1 averages them. The weights of 25, 25 and 1 belong to the
    algorithm, which is implemented here; equation 5 is ``invariance`` times E. Half types are computed, and returned,
    in float32.

    Args:
        invariance: Weight of the invariance term.
        variance: Weight of the variance term.
        covariance: Weight of the covariance term.
        epsilon: Added to variances before the root, so that a constant dimension has a finite gradient.

    Example:
        >>> import torch
        >>> loss = VICRegLoss(invariance=25.0)
        >>> loss(torch.randn(8, 2, 128)).shape
        torch.Size([])
    """

    def __init__(
        self,
        invariance: Weight = 25.0,
        variance: Weight = 25.0,
        covariance: Weight = 1.0,
        epsilon: Annotated[float, Field(gt=0)] = 1e-4,
    ) -> None:
        super().__init__()
        self.invariance, self.variance, self.covariance, self.epsilon = invariance, variance, covariance, epsilon
        self.check_options()

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute the loss.

        Args:
            embeddings: (B, 2, E) floats: two views of B instances, with B of 2 or more.

        Returns:
            A scalar.

        Raises:
            ValueError: The shape is wrong.
        """
        if embeddings.ndim != 3 or embeddings.shape[0] < 2 or embeddings.shape[1] != 2:
            raise ValueError(
                f"Expected embeddings of shape (B, 2, E) with B of 2 or more, got {tuple(embeddings.shape)}"
            )
        with torch.autocast(embeddings.device.type, enabled=False):
            values = full_precision(embeddings)
            distance = (values[:, 0] - values[:, 1]).square().mean()
            centred = (values - values.mean(0)).transpose(0, 1)
            covariances = centred.mT @ centred / (len(values) - 1)
            variances = covariances.diagonal(dim1=1, dim2=2)
            hinge = (1 - (variances + self.epsilon).sqrt()).relu().mean(1).sum()
            others = (covariances.square().sum() - variances.square().sum()) / values.shape[2]
            return self.invariance * distance + self.variance * hinge + self.covariance * others
