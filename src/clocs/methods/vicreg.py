"""VICReg: two views agree, while all dimensions vary and are not correlated."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.losses import VICRegLoss
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs, encode_views

Weight = Annotated[float, Field(ge=0)]


@METHODS.register("vicreg")
class VICReg(Method):
    """VICReg (Bardes, Ponce and LeCun, 2022). It needs neither negatives nor patients.

    The views are two augmented copies of a frame. Frames of two segments (``frames.num_segments=2``) give their two
    segments instead, each augmented. The loss compares the outputs of an expander (Linear, BatchNorm, ReLU, twice, and
    Linear), which is trained with the encoder and not saved. Variances and covariances are over the batch of all ranks.

    The augmentations are our choice, because those of the paper are for images.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each of the two views.
        width: Width of the expander's three layers. The default is four times the default embedding, as in the paper
            (8,192 for 2,048).
        invariance: Weight of the distance between the two views.
        variance: Weight of the hinge on standard deviations.
        covariance: Weight of the squared covariances, see :class:`clocs.losses.VICRegLoss`.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = VICReg(ResNet(in_channels=12), width=256)
        >>> views = method.views(torch.randn(4, 1, 12, 500), torch.Generator())
        >>> method({"views": views}).shape
        torch.Size([4, 2, 256])
    """

    needs_global_batch: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = ("gaussian_noise", "scaling", "mask"),
        width: Annotated[int, Field(gt=0)] = 512,
        invariance: Weight = 25.0,
        variance: Weight = 25.0,
        covariance: Weight = 1.0,
    ) -> None:
        super().__init__(encoder, augmentations)
        self.width, self.invariance, self.variance, self.covariance = width, invariance, variance, covariance
        self.expander = _expander(encoder.embedding_dim, width)
        self.regularization = VICRegLoss(invariance, variance, covariance)

    def unsupported_frames(self, num_segments: int, num_views: int) -> str | None:
        """Refuse more than two segments.

        Args:
            num_segments: Segments of a frame.
            num_views: Views that :meth:`views` makes of a frame.

        Returns:
            A description of supported frames; None if the frames are supported.
        """
        return "one or two segments a frame" if num_segments > 2 else None

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make two augmented copies, or augment two segments.

        Args:
            signals: Frames (B, 1 or 2, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 2, C, S).
        """
        both = signals.repeat(1, 2, 1, 1) if signals.shape[1] == 1 else signals
        return self.augment(both, generator)

    def forward(self, batch: Batch) -> Tensor:
        """Return the outputs of the expander for both views.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Outputs (B, 2, width).
        """
        return encode_views(self.expander, self.encode(batch))

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the weighted sum of the three terms.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        loss: Tensor = self.regularization(outputs)
        return loss


def _expander(embedding_dim: int, width: int) -> nn.Module:
    first, second = nn.Linear(embedding_dim, width, bias=False), nn.Linear(width, width, bias=False)
    hidden = (first, nn.BatchNorm1d(width), nn.ReLU(), second, nn.BatchNorm1d(width), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(width, width))
