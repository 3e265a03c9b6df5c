"""MT-SSL (Sarkar and Etemad): for each augmentation, tell augmented instances from originals."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from clocs.augmentations import Compose
from clocs.losses import MultiTaskLoss
from clocs.methods.method import AugmentedOptions, encode_views

ALL_TASKS = tuple(
    {"name": name}
    for name in ("gaussian_noise", "scaling", "flip_amplitude", "flip_time", "permutation", "time_warping")
)
"""The paper's six, for PhysioNet 2020; on Chapman it keeps scaling and the two flips."""


class MtSslModel(nn.Module):
    """An encoder and one binary head a task."""

    def __init__(self, encoder: nn.Module, embedding: int, tasks: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.Linear(embedding, tasks)

    def forward(self, views: Tensor) -> Tensor:
        """(B, 1 + T, C, S) -> (B, 2, T): each task's logit of the original and of its own view."""
        logits: Tensor = self.heads(encode_views(self.encoder, views))
        return torch.stack([logits[:, 0], logits[:, 1:].diagonal(dim1=1, dim2=2)], dim=1)


class MtSsl(AugmentedOptions):
    """``augmentations`` are the tasks, each applied for certain, whatever its probability."""

    name: ClassVar[str] = "mtssl"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = False
    shares_batch: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False

    augmentations: tuple[dict[str, Any], ...] = Field(default=ALL_TASKS, validate_default=True, min_length=1)

    tasks_on: Literal["normalised", "millivolt"] = "normalised"
    """Frames that tasks augment: as the encoder takes them, or before. Where frames are brought to one size, doing so
    afterwards would undo a scaling, and nothing could tell it from the original."""

    @field_validator("augmentations", mode="after")
    @classmethod
    def _for_certain(cls, tasks: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        return tuple({**task, "probability": 1.0} for task in tasks)

    @property
    def normalises_first(self) -> bool:
        """As ``tasks_on`` says."""
        return self.tasks_on == "normalised"

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, 1, S) -> (B, 1 + T, S): the original, then one view a task."""
        original = frames[:, 0]
        tasks = [Compose([task])(original.unsqueeze(1), generator)[:, 0] for task in self.augmentations]
        return torch.stack([original, *tasks], dim=1)

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """Encoder and heads."""
        return MtSslModel(encoder, embedding, len(self.augmentations))

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """Binary cross-entropy, originals against augmented, mean over tasks."""
        applied = torch.zeros_like(outputs, dtype=torch.bool)
        applied[:, 1] = True
        loss: Tensor = MultiTaskLoss()(outputs.flatten(0, 1), applied.flatten(0, 1))
        return loss
