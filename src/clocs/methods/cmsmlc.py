"""CMSMLC, contrastive multi-segment multi-lead coding: views are leads of adjacent segments."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from clocs.encoders import Encoder
from clocs.losses.patient_nce import OffDiagonals, Pairs
from clocs.methods.contrast import PatientContrast
from clocs.methods.method import METHODS, Augmentations, FramePolicyName


@METHODS.register("cmsmlc")
class CMSMLC(PatientContrast):
    """Contrastive multi-segment multi-lead coding (CLOCS, section 3).

    Views are segments x leads: two segments of four leads make 28 pairs of views. The encoder takes one lead.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view independently.
        projection_hidden_dim: Hidden width of a projection head, see :class:`clocs.methods.ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: Weight of pairs of different instances of a patient, see :class:`clocs.losses.PatientNCELoss`.
        view_pairs: Pairs of views that are compared, see :class:`clocs.losses.PatientNCELoss`.
        decorrelation: Weight of a penalty on correlated embedding dimensions.
        view_choice: ``all`` leads of all segments, or ``random_pair``: one random lead for each segment, so that two
            segments make one pair of views.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = CMSMLC(ResNet(embedding_dim=64), view_choice="random_pair")
        >>> method.views(torch.randn(4, 2, 3, 500), torch.Generator()).shape
        torch.Size([4, 2, 1, 500])
    """

    frame_policy: ClassVar[FramePolicyName] = "segments"
    leads_as_views: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        projection_hidden_dim: Annotated[int, Field(gt=0)] | None = None,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        off_diagonals: OffDiagonals = "both",
        view_pairs: Pairs = "all",
        decorrelation: Annotated[float, Field(ge=0)] = 0.0,
        view_choice: Literal["all", "random_pair"] = "all",
    ) -> None:
        super().__init__(
            encoder, augmentations, projection_hidden_dim, temperature, off_diagonals, view_pairs, decorrelation
        )
        self.view_choice = view_choice

    @property
    def is_stochastic(self) -> bool:
        """Return whether views are random."""
        return self.view_choice == "random_pair" or super().is_stochastic

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make a view of each lead and segment, or of a random lead of each segment.

        Args:
            signals: Frames (B, segments, leads, S).
            generator: Source of all randomness.

        Returns:
            Views (B, leads x segments, 1, S), or (B, segments, 1, S).
        """
        by_lead = signals.transpose(1, 2)
        chosen = by_lead.flatten(1, 2) if self.view_choice == "all" else _random_leads(by_lead, generator)
        return self.augment(chosen.unsqueeze(2), generator)


def _random_leads(signals: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a lead for each segment: (B, leads, segments, S) -> (B, segments, S)."""
    batch, leads, segments = signals.shape[:3]
    drawn = torch.randint(leads, (batch, segments), generator=generator, device=generator.device).to(signals.device)
    instances = torch.arange(batch, device=signals.device)[:, None]
    return signals[instances, drawn, torch.arange(segments, device=signals.device)]
