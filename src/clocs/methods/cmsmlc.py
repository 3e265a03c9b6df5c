"""CMSMLC, contrastive multi-segment multi-lead coding: any lead, any of the adjacent segments."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import augmented


class Cmsmlc(PatientContrast):
    """Views are segments x leads: with two segments of four leads there are 28 pairs of views."""

    name: ClassVar[str] = "cmsmlc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "segments"
    together: ClassVar[bool] = True

    view_choice: Literal["all", "random_pair"] = "all"
    """``random_pair``: one view a segment, each of a lead drawn for it; two segments then make one pair, not 28."""

    @property
    def draws(self) -> bool:
        """Whether views are random."""
        return self.view_choice == "random_pair" or super().draws

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, leads, segments, S) -> (B, leads x segments, S), or (B, segments, S)."""
        chosen = frames.flatten(1, 2) if self.view_choice == "all" else _random_leads(frames, generator)
        return augmented(chosen, self.augmentations, generator)


def _random_leads(frames: Tensor, generator: torch.Generator) -> Tensor:
    """(B, leads, segments, S) -> (B, segments, S): each segment of a lead drawn for it alone."""
    batch, leads, segments = frames.shape[:3]
    drawn = torch.randint(leads, (batch, segments), generator=generator, device=generator.device).to(frames.device)
    instances, places = torch.arange(batch, device=frames.device), torch.arange(segments, device=frames.device)
    return frames[instances[:, None], drawn, places]
