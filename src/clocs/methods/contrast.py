"""Base classes of contrastive methods: with a projection head, and with the patient-specific loss of CLOCS."""

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
    """Base class of methods that compare embeddings of views, optionally through a projection head.

    A subclass implements ``views`` and ``loss``, which takes the outputs (B, V, E) of :meth:`forward`.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view independently.
        projection_hidden_dim: Hidden width of a projection head (Linear, BatchNorm, ReLU, Linear), which is trained
            with the encoder and not saved. None for no head, as in the paper.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> class Closer(ContrastiveMethod):
        ...     frame_policy = "segments"
        ...
        ...     def views(self, signals, generator):
        ...         return self.augment(signals, generator)
        ...
        ...     def loss(self, outputs, batch):
        ...         return (outputs[:, 0] - outputs[:, 1]).square().mean()
        >>> method = Closer(ResNet(in_channels=12, embedding_dim=64), projection_hidden_dim=128)
        >>> method({"views": torch.randn(4, 2, 12, 500)}).shape
        torch.Size([4, 2, 64])
    """

    needs_global_batch: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        projection_hidden_dim: Annotated[int, Field(gt=0)] | None = None,
    ) -> None:
        super().__init__(encoder, augmentations)
        self.projection_hidden_dim = projection_hidden_dim
        self.projection = (
            None if projection_hidden_dim is None else _projection(encoder.embedding_dim, projection_hidden_dim)
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the outputs that the loss compares.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Embeddings, or their projections, (B, V, E).
        """
        embeddings = self.encode(batch)
        return embeddings if self.projection is None else encode_views(self.projection, embeddings)


def _projection(embedding_dim: int, width: int) -> nn.Module:
    first = nn.Linear(embedding_dim, width, bias=False)  # BatchNorm would subtract a bias
    return nn.Sequential(first, nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, embedding_dim))


class PatientContrast(ContrastiveMethod):
    """Base class of the methods of CLOCS: views of a patient attract each other, other patients repel (equations 1-4).

    By default nothing is augmented, which is our reading of the paper's Table 1.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view independently.
        projection_hidden_dim: Hidden width of a projection head, see :class:`ContrastiveMethod`.
        temperature: Softmax temperature.
        off_diagonals: Weight of pairs of different instances of a patient, see :class:`clocs.losses.PatientNCELoss`.
        view_pairs: Pairs of views that are compared: ``all``, or the ``last`` pair as in the released code.
        decorrelation: Weight of a penalty on correlated embedding dimensions. The paper has none.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> class TwoSegments(PatientContrast):
        ...     frame_policy = "segments"
        ...
        ...     def views(self, signals, generator):
        ...         return self.augment(signals, generator)
        >>> method = TwoSegments(ResNet(embedding_dim=64))
        >>> batch = {"views": torch.randn(4, 2, 1, 500), "patient": torch.tensor([0, 0, 1, 2])}
        >>> method.loss(method(batch), batch).shape
        torch.Size([])
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        projection_hidden_dim: Annotated[int, Field(gt=0)] | None = None,
        temperature: Annotated[float, Field(gt=0)] = 0.1,
        off_diagonals: OffDiagonals = "both",
        view_pairs: Pairs = "all",
        decorrelation: Annotated[float, Field(ge=0)] = 0.0,
    ) -> None:
        super().__init__(encoder, augmentations, projection_hidden_dim)
        self.temperature, self.off_diagonals, self.view_pairs = temperature, off_diagonals, view_pairs
        self.decorrelation = decorrelation
        self.contrast = PatientNCELoss(temperature, off_diagonals, view_pairs)
        self.penalty = DecorrelationLoss()

    def unsupported_frames(self, num_segments: int, num_views: int) -> str | None:
        """Refuse fewer than two views.

        Args:
            num_segments: Segments of a frame.
            num_views: Views that :meth:`views` makes of a frame.

        Returns:
            A description of supported frames; None if the frames are supported.
        """
        return "two views or more of an instance" if num_views < 2 else None

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss, averaged over all pairs of views, plus the weighted penalty.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, Tensor)
        contrast: Tensor = self.contrast(outputs, batch["patient"])
        if not self.decorrelation:
            return contrast
        penalty: Tensor = self.penalty(units(outputs).flatten(0, 1))
        return contrast + self.decorrelation * penalty
