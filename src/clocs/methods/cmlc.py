"""CMLC, contrastive multi-lead coding: the leads of one moment are views of one patient."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from clocs.methods.contrast import PatientContrast
from clocs.methods.method import augmented


class Cmlc(PatientContrast):
    """Views are leads: with four leads there are six pairs of views."""

    name: ClassVar[str] = "cmlc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = True

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, leads, 1, S) -> (B, leads, S)."""
        return augmented(frames.flatten(1, 2), self.augmentations, generator)
