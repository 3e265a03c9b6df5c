"""What the paper's three methods share: the patient-specific contrastive loss."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from clocs.losses import DecorrelationLoss, PatientNCELoss
from clocs.losses.cosine import units
from clocs.methods.method import ProjectedOptions


class PatientContrast(ProjectedOptions):
    """Views of one patient attract each other, those of others repel; only the views differ by method.

    Nothing is augmented by default: our reading of the paper's Table 1.
    """

    shares_batch: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = False

    temperature: float = Field(default=0.1, gt=0)
    off_diagonals: Literal["both", "alike", "one_triangle", "none"] = "both"
    """``alike``: a pair of one patient's instances weighs as much as one of an instance; ``one_triangle``: as in the
    released code."""
    pairs: Literal["all", "last"] = "all"
    """``last``: as in the released code, whose loss overwrote itself per pair of views."""

    decorrelation: float = Field(default=0.0, ge=0)
    """Weight of the penalty on numbers of the embedding that repeat each other; not in the paper."""

    def needs(self, segments: int, views: int) -> str | None:
        """Views to compare, be they segments or leads."""
        return "two views or more of an instance" if views < 2 else None

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """The paper's equations 1 to 4, over all pairs of views; beyond the paper, with decorrelation."""
        contrast: Tensor = PatientNCELoss(self.temperature, self.off_diagonals, self.pairs)(outputs, patients)
        if not self.decorrelation:
            return contrast
        repeated: Tensor = DecorrelationLoss()(units(outputs).flatten(0, 1))
        return contrast + self.decorrelation * repeated
