"""CMSMLC, contrastive multi-segment multi-lead coding: any lead, any of the adjacent segments."""

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
        augmentations: Applied to each view on its own.
        head: Hidden width of a projection head, see :class:`clocs.methods.ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: See :class:`clocs.losses.PatientNCELoss`.
        pairs: See :class:`clocs.losses.PatientNCELoss`.
        decorrelation: Weight of a penalty on correlated embedding dimensions.
        view_choice: ``random_pair`` draws a lead for each segment, so that two segments make one pair, not 28.

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
        head: Annotated[int, Field(gt=0)] | None = None,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        off_diagonals: OffDiagonals = "both",
        pairs: Pairs = "all",
        decorrelation: Annotated[float, Field(ge=0)] = 0.0,
        view_choice: Literal["all", "random_pair"] = "all",
    ) -> None:
        super().__init__(encoder, augmentations, head, temperature, off_diagonals, pairs, decorrelation)
        self.view_choice = view_choice

    @property
    def is_stochastic(self) -> bool:
        """Whether views are random."""
        return self.view_choice == "random_pair" or super().is_stochastic

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make (B, leads x segments, 1, S), or (B, segments, 1, S), of (B, segments, leads, S)."""
        by_lead = signals.transpose(1, 2)
        chosen = by_lead.flatten(1, 2) if self.view_choice == "all" else _random_leads(by_lead, generator)
        return self.augment(chosen.unsqueeze(2), generator)


def _random_leads(signals: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a lead for each segment: (B, leads, segments, S) -> (B, segments, S)."""
    batch, leads, segments = signals.shape[:3]
    drawn = torch.randint(leads, (batch, segments), generator=generator, device=generator.device).to(signals.device)
    instances, places = torch.arange(batch, device=signals.device), torch.arange(segments, device=signals.device)
    return signals[instances[:, None], drawn, places]
