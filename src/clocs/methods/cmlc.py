"""CMLC, contrastive multi-lead coding: simultaneous leads are views of one patient."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import METHODS


@METHODS.register("cmlc")
class CMLC(PatientContrast):
    """Contrastive multi-lead coding (CLOCS, section 3). Views are leads: four leads make six pairs of views.

    Args:
        encoder: The encoder to train. It takes one lead.
        augmentations: Applied to each view independently.
        projection_hidden_dim: Hidden width of a projection head, see :class:`clocs.methods.ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: Weight of pairs of different instances of a patient, see :class:`clocs.losses.PatientNCELoss`.
        view_pairs: Pairs of views that are compared, see :class:`clocs.losses.PatientNCELoss`.
        decorrelation: Weight of a penalty on correlated embedding dimensions.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> CMLC(ResNet(embedding_dim=64)).views(torch.randn(4, 1, 3, 500), torch.Generator()).shape
        torch.Size([4, 3, 1, 500])
    """

    leads_as_views: ClassVar[bool] = True

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make a view of each lead and segment.

        Args:
            signals: Frames (B, segments, leads, S).
            generator: Source of all randomness.

        Returns:
            Views (B, leads x segments, 1, S).
        """
        return self.augment(signals.transpose(1, 2).flatten(1, 2).unsqueeze(2), generator)
