"""CMSMLC, contrastive multi-segment multi-lead coding: any lead, any of the adjacent segments."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import perturbed


class Cmsmlc(PatientContrast):
    """Views are segments x leads: with two segments of four leads there are 28 pairs of views."""

    name: ClassVar[str] = "cmsmlc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "segments"
    together: ClassVar[bool] = True

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, leads, segments, S) -> (B, leads x segments, S)."""
        return perturbed(frames.flatten(1, 2), self.perturbations, generator)
