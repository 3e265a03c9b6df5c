"""What contrastive methods share: a projection head, and the patient-specific loss of the paper."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.losses import DecorrelationLoss, PatientNCELoss
from clocs.losses.cosine import units
from clocs.losses.patient_nce import OffDiagonals, Pairs
from clocs.methods.method import Augmentations, Batch, Method, Outputs, encode_views


class ContrastiveMethod(Method):
    """A method whose loss compares embeddings of views, as they are or through a projection head.

    A subclass makes the views and compares the outputs (B, V, E) in ``loss``.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view on its own.
        head: Hidden width of a projection head (Linear, BatchNorm, ReLU, Linear), which is trained with the encoder
            and not kept. None, as in the paper: no head.
    """

    needs_global_batch: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        head: Annotated[int, Field(gt=0)] | None = None,
    ) -> None:
        super().__init__(encoder, augmentations)
        self.head = head
        self.projection = None if head is None else _projection(encoder.embedding_dim, head)

    def forward(self, batch: Batch) -> Tensor:
        """Return the outputs that the loss compares, (B, V, E)."""
        embeddings = self.encode(batch)
        return embeddings if self.projection is None else encode_views(self.projection, embeddings)


def _projection(embedding_dim: int, width: int) -> nn.Module:
    first = nn.Linear(embedding_dim, width, bias=False)  # BatchNorm would subtract a bias again
    return nn.Sequential(first, nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, embedding_dim))


class PatientContrast(ContrastiveMethod):
    """A method in which views of one patient attract each other and those of others repel (equations 1 to 4).

    Nothing is augmented by default: our reading of the paper's Table 1.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view on its own.
        head: Hidden width of a projection head, see :class:`ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: How pairs of different instances of one patient are weighted, see
            :class:`clocs.losses.PatientNCELoss`.
        pairs: Which pairs of views are compared; ``last`` is what the released code does.
        decorrelation: Weight of a penalty on correlated embedding dimensions. It is not in the paper.
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        head: Annotated[int, Field(gt=0)] | None = None,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        off_diagonals: OffDiagonals = "both",
        pairs: Pairs = "all",
        decorrelation: Annotated[float, Field(ge=0)] = 0.0,
    ) -> None:
        super().__init__(encoder, augmentations, head)
        self.temperature, self.off_diagonals, self.pairs = temperature, off_diagonals, pairs
        self.decorrelation = decorrelation
        self.contrast = PatientNCELoss(temperature, off_diagonals, pairs)
        self.penalty = DecorrelationLoss()

    def unsupported_frames(self, num_segments: int, num_views: int) -> str | None:
        """Refuse fewer than two views, be they segments or leads."""
        return "two views or more of an instance" if num_views < 2 else None

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean over all pairs of views, plus the weighted penalty."""
        assert isinstance(outputs, Tensor)
        contrast: Tensor = self.contrast(outputs, batch["patient"])
        if not self.decorrelation:
            return contrast
        penalty: Tensor = self.penalty(units(outputs).flatten(0, 1))
        return contrast + self.decorrelation * penalty
