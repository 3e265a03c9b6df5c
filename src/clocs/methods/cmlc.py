"""CMLC, contrastive multi-lead coding: the leads of one moment are views of one patient."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.losses.patient_nce import patient_nce
from clocs.methods.method import PerturbedOptions, ViewEncoder, perturbed


class Cmlc(PerturbedOptions):
    """Views are leads: with four leads there are six pairs of views."""

    name: ClassVar[str] = "cmlc"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = True
    shares_batch: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False

    temperature: float = Field(default=0.1, gt=0)
    off_diagonals: Literal["both", "one_triangle", "none"] = "both"
    """``one_triangle``: as in the released code."""
    pairs: Literal["all", "last"] = "all"
    """``last``: as in the released code, whose loss overwrote itself per pair of views."""

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, leads, 1, S) -> (B, leads, S)."""
        return perturbed(frames.flatten(1, 2), self.perturbations, generator)

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """Just the encoder, shared by all leads."""
        return ViewEncoder(encoder)

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """The paper's equations 1 to 4, over all pairs of leads."""
        return patient_nce(
            outputs, patients, temperature=self.temperature, off_diagonals=self.off_diagonals, pairs=self.pairs
        )

    def after_step(self, model: nn.Module) -> None:
        """Nothing."""
