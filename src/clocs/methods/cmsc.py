"""CMSC, contrastive multi-segment coding: adjacent segments of one lead are views of one patient."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import augmented


class Cmsc(PatientContrast):
    """Views are segments: two of them, one pair."""

    name: ClassVar[str] = "cmsc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "segments"
    together: ClassVar[bool] = False

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, segments, S) as they are."""
        return augmented(frames, self.augmentations, generator)
