"""CMSC, contrastive multi-segment coding: adjacent segments of a frame are views of one patient."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import METHODS, FramePolicyName


@METHODS.register("cmsc")
class CMSC(PatientContrast):
    """Contrastive multi-segment coding (CLOCS, section 3). Views are segments: two of them make one pair.

    Frames may have one lead, as in the paper, or several leads.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view independently.
        projection_hidden_dim: Hidden width of a projection head, see :class:`clocs.methods.ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: Weight of pairs of different instances of a patient, see :class:`clocs.losses.PatientNCELoss`.
        view_pairs: Pairs of views that are compared, see :class:`clocs.losses.PatientNCELoss`.
        decorrelation: Weight of a penalty on correlated embedding dimensions.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = CMSC(ResNet(in_channels=12, embedding_dim=64), temperature=0.1)
        >>> views = method.views(torch.randn(4, 2, 12, 500), torch.Generator())
        >>> method.training_step({"views": views, "patient": torch.arange(4)}, step=0).shape
        torch.Size([])
    """

    frame_policy: ClassVar[FramePolicyName] = "segments"

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Augment the segments, which are the views.

        Args:
            signals: Frames (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, V, C, S).
        """
        return self.augment(signals, generator)
