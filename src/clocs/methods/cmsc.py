"""CMSC, contrastive multi-segment coding: adjacent segments of one lead are views of one patient."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.losses.patient_nce import patient_nce
from clocs.methods.method import PerturbedOptions, ViewEncoder, perturbed


class Cmsc(PerturbedOptions):
    """The paper applies no perturbation here by default; that is our reading of its Table 1."""

    name: ClassVar[str] = "cmsc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "segments"
    together: ClassVar[bool] = False
    shares_batch: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False

    temperature: float = Field(default=0.1, gt=0)
    off_diagonals: Literal["both", "one_triangle", "none"] = "both"
    """``one_triangle``: as in the released code."""

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, segments, S) as they are, perturbed if asked."""
        return perturbed(frames, self.perturbations, generator)

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """Just the encoder."""
        return ViewEncoder(encoder)

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """The paper's equations 1 to 4."""
        return patient_nce(outputs, patients, temperature=self.temperature, off_diagonals=self.off_diagonals)

    def after_step(self, model: nn.Module) -> None:
        """Nothing."""
