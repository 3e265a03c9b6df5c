"""Supervised pre-training: the paper's upper baseline, with all labels."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from clocs.losses import ClassificationLoss
from clocs.methods.method import AugmentedOptions, augmented, encode_views


class SupervisedModel(nn.Module):
    """An encoder and the paper's layer 5."""

    def __init__(self, encoder: nn.Module, embedding: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(embedding, classes)

    def forward(self, views: Tensor) -> Tensor:
        """(B, 1, C, S) -> (B, classes)."""
        logits: Tensor = self.head(encode_views(self.encoder, views)[:, 0])
        return logits


class Supervised(AugmentedOptions):
    """Softmax where a recording has one class, a logistic a class where it may have several."""

    name: ClassVar[str] = "supervised"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = False
    shares_batch: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = True

    multi_label: bool = False

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, 1, S)."""
        return augmented(frames, self.augmentations, generator)

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """Encoder and classifier."""
        return SupervisedModel(encoder, embedding, classes)

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy."""
        loss: Tensor = ClassificationLoss(self.multi_label)(outputs, targets)
        return loss
