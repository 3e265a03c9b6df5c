"""BYOL: a network predicts the output of its moving average for another augmented copy."""

from __future__ import annotations

import copy
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.losses import BYOLLoss
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs, encode_views


@METHODS.register("byol")
class BYOL(Method):
    """BYOL (Grill et al., 2020), a baseline of the CLOCS paper.

    The encoder and a predictor learn to predict the output of a moving average of the encoder on another copy.

    Ready configs augment with Gaussian noise, because the paper does not state which augmentation its Table 1 used.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each of the two copies.
        decay: Decay of the moving average; 0.9 in the paper.
        normalized: False: the paper's mean squared error. True: that of Grill et al., between unit vectors.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = BYOL(ResNet(embedding_dim=64), decay=0.99)
        >>> views = method.views(torch.randn(4, 1, 1, 500), torch.Generator())
        >>> method({"views": views}).shape
        torch.Size([4, 2, 2, 64])
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = ("gaussian_noise",),
        decay: Annotated[float, Field(ge=0, le=1)] = 0.9,
        normalized: bool = False,
    ) -> None:
        super().__init__(encoder, augmentations)
        self.decay, self.normalized = decay, normalized
        size = encoder.embedding_dim
        self.predictor = nn.Sequential(nn.Linear(size, size), nn.ReLU())  # as the paper's layer 4
        self.target = copy.deepcopy(encoder).requires_grad_(False)
        self.distance = BYOLLoss(normalized)

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make two augmented copies.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 2, C, S).
        """
        return self.augment(signals.repeat(1, 2, 1, 1), generator)

    def forward(self, batch: Batch) -> Tensor:
        """Return the prediction of each view and the target of the other view.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Predictions and targets, stacked: (B, 2, 2, E).
        """
        predictions = self.predictor(self.encode(batch))
        with torch.no_grad():
            targets = encode_views(self.target, batch["views"], batch.get("lead_mask")).flip(1)
        return torch.stack([predictions, targets], dim=2)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean over both directions.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, Tensor)
        predictions, targets = outputs.flatten(0, 1).unbind(1)
        loss: Tensor = self.distance(predictions, targets)
        return loss

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Move the target towards the encoder, and copy its BatchNorm statistics.

        Args:
            step: Number of steps done before this one.
        """
        for average, current in zip(self.target.parameters(), self.encoder.parameters(), strict=True):
            average.lerp_(current, 1 - self.decay)
        for buffer, latest in zip(self.target.buffers(), self.encoder.buffers(), strict=True):
            buffer.copy_(latest)
