"""SimCLR: two augmented copies of one instance attract each other, other instances repel."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from clocs.losses import InfoNCELoss
from clocs.methods.method import ProjectedOptions, augmented


class SimClr(ProjectedOptions):
    """Gaussian noise by default: our choice, the paper does not say which its Table 1 used."""

    name: ClassVar[str] = "simclr"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = False
    shares_batch: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False

    augmentations: tuple[dict[str, Any], ...] = Field(default=("gaussian_noise",), validate_default=True)
    temperature: float = Field(default=0.1, gt=0)
    form: Literal["two_view", "nt_xent"] = "two_view"
    """``two_view``: InfoNCE between the two views, our reading of the paper; ``nt_xent``: SimCLR's own."""

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, 1, S) -> (B, 2, S)."""
        return augmented(frames.repeat(1, 2, 1), self.augmentations, generator)

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """Blind to patients."""
        loss: Tensor = InfoNCELoss(self.temperature, self.form)(outputs)
        return loss
