"""MT-SSL (Sarkar and Etemad): for each augmentation, classify augmented instances and originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from clocs.augmentations import Augmentation
from clocs.core.errors import ConfigError
from clocs.encoders import Encoder
from clocs.losses import MultiTaskLoss
from clocs.methods.method import METHODS, Batch, Method, Outputs, describe_or_invalid

ALL_TASKS: Final = ("gaussian_noise", "scaling", "flip_amplitude", "flip_time", "permutation", "time_warping")
"""Six tasks of the paper, for PhysioNet 2020. On Chapman it uses scaling and the two flips."""


def _with_probability_one(value: object) -> list[dict[str, Any]]:
    """Describe the tasks, each applied to every instance."""
    return [{**task, "probability": 1.0} for task in describe_or_invalid(value)]


Tasks = Annotated[
    Sequence[str | Mapping[str, Any] | Augmentation], Field(min_length=1), BeforeValidator(_with_probability_one)
]


@METHODS.register("mtssl")
class MTSSL(Method):
    """Multi-task self-supervision (Sarkar and Etemad, 2020), a baseline of the CLOCS paper.

    The encoder learns to recognize augmented frames: one binary classifier for each augmentation.

    Args:
        encoder: The encoder to train.
        augmentations: The tasks. Each is applied to every instance; its probability is ignored.
        tasks_on: Frames that tasks augment: ``normalized`` ones, as the encoder takes them, or those in ``millivolt``.
            Normalization after a scaling would undo it, and the task could not be learned.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = MTSSL(ResNet(embedding_dim=64), augmentations=["scaling", "flip_time"])
        >>> method.views(torch.randn(4, 1, 1, 500), torch.Generator()).shape
        torch.Size([4, 3, 1, 500])
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Tasks = ALL_TASKS,
        tasks_on: Literal["normalized", "millivolt"] = "normalized",
    ) -> None:
        if not augmentations:
            raise ConfigError("MT-SSL needs one augmentation or more. Each is a task.")
        super().__init__(encoder, _with_probability_one(augmentations))
        self.tasks_on = tasks_on
        self.heads = nn.Linear(encoder.embedding_dim, len(self.augmentations))
        self.classification = MultiTaskLoss()

    @property
    def normalizes_first(self) -> bool:
        """Return whether tasks augment normalized frames."""
        return self.tasks_on == "normalized"

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Return the original and one view per task.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 1 + T, C, S).
        """
        original = signals[:, 0]
        return torch.stack([original, *(task(original, generator) for task in self.augmentations)], dim=1)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of each task for the original and for its own view.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Logits (B, 2, T).
        """
        logits: Tensor = self.heads(self.encode(batch))
        return torch.stack([logits[:, 0], logits[:, 1:].diagonal(dim1=1, dim2=2)], dim=1)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the binary cross-entropy of originals against augmented instances, averaged over tasks.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, Tensor)
        applied = torch.zeros_like(outputs, dtype=torch.bool)
        applied[:, 1] = True
        loss: Tensor = self.classification(outputs.flatten(0, 1), applied.flatten(0, 1))
        return loss
