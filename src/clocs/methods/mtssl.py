"""MT-SSL (Sarkar and Etemad): for each augmentation, tell augmented instances from originals."""

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
from clocs.methods.method import METHODS, Batch, Method, Outputs, describe_given

ALL_TASKS: Final = ("gaussian_noise", "scaling", "flip_amplitude", "flip_time", "permutation", "time_warping")
"""The paper's six, for PhysioNet 2020; on Chapman it keeps scaling and the two flips."""


def _certain(given: object) -> list[dict[str, Any]]:
    """Spell out the tasks, each applied to every instance."""
    return [{**task, "probability": 1.0} for task in describe_given(given)]


Tasks = Annotated[Sequence[str | Mapping[str, Any] | Augmentation], Field(min_length=1), BeforeValidator(_certain)]


@METHODS.register("mtssl")
class MTSSL(Method):
    """Multi-task self-supervision (Sarkar and Etemad, 2020), as the paper compares with it.

    Args:
        encoder: The encoder to train.
        augmentations: The tasks. Each is applied to every instance, whatever its probability.
        tasks_on: Frames that tasks augment: ``normalised``, as the encoder takes them, or ``millivolt``, before. A
            normalisation to one size would undo a scaling, and nothing could tell it from the original.

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
        tasks_on: Literal["normalised", "millivolt"] = "normalised",
    ) -> None:
        if not augmentations:
            raise ConfigError("MT-SSL needs one augmentation or more, each of which is a task")
        super().__init__(encoder, _certain(augmentations))
        self.tasks_on = tasks_on
        self.heads = nn.Linear(encoder.embedding_dim, len(self.augmentations))
        self.classification = MultiTaskLoss()

    @property
    def normalizes_first(self) -> bool:
        """Whether tasks augment frames as the encoder takes them."""
        return self.tasks_on == "normalised"

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Return the original, then one view a task: (B, 1, C, S) -> (B, 1 + T, C, S)."""
        original = signals[:, 0]
        return torch.stack([original, *(task(original, generator) for task in self.augmentations)], dim=1)

    def forward(self, batch: Batch) -> Tensor:
        """Return each task's logit of the original and of its own view, (B, 2, T)."""
        logits: Tensor = self.heads(self.encode(batch))
        return torch.stack([logits[:, 0], logits[:, 1:].diagonal(dim1=1, dim2=2)], dim=1)

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the binary cross-entropy of originals against augmented instances, averaged over tasks."""
        assert isinstance(outputs, Tensor)
        applied = torch.zeros_like(outputs, dtype=torch.bool)
        applied[:, 1] = True
        loss: Tensor = self.classification(outputs.flatten(0, 1), applied.flatten(0, 1))
        return loss
