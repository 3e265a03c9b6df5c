"""SimCLR: two augmented copies of one instance attract each other, other instances repel."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from clocs.encoders import Encoder
from clocs.losses import InfoNCELoss
from clocs.losses.info_nce import Form
from clocs.methods.contrast import ContrastiveMethod
from clocs.methods.method import METHODS, Augmentations, Batch, Outputs


@METHODS.register("simclr")
class SimCLR(ContrastiveMethod):
    """SimCLR (Chen et al., 2020), as the CLOCS paper uses it as a baseline. Patients are not used.

    Gaussian noise is our choice, because the paper does not state which augmentation its Table 1 used.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each of the two copies.
        projection_hidden_dim: Hidden width of a projection head, see :class:`clocs.methods.ContrastiveMethod`.
        temperature: Softmax temperature.
        form: ``two_view``: InfoNCE between the two copies, our reading of the paper. ``nt_xent``: SimCLR's own.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> SimCLR(ResNet(embedding_dim=64)).views(torch.randn(4, 1, 1, 500), torch.Generator()).shape
        torch.Size([4, 2, 1, 500])
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = ("gaussian_noise",),
        projection_hidden_dim: Annotated[int, Field(gt=0)] | None = None,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        form: Form = "two_view",
    ) -> None:
        super().__init__(encoder, augmentations, projection_hidden_dim)
        self.temperature, self.form = temperature, form
        self.contrast = InfoNCELoss(temperature, form)

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make two augmented copies.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 2, C, S).
        """
        return self.augment(signals.repeat(1, 2, 1, 1), generator)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the InfoNCE loss.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        loss: Tensor = self.contrast(outputs)
        return loss
