"""Supervised training: the paper's upper baseline, with all labels; and fine-tuning, with some."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.losses import ClassificationLoss
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs


@METHODS.register("supervised")
class Supervised(Method):
    """An encoder with a linear classifier, the paper's layer 5.

    Args:
        encoder: The encoder to train.
        num_classes: Number of classes.
        augmentations: Applied to each frame.
        multi_label: False: softmax, an instance has one class. True: a logistic function for each class, an
            instance may have several or none.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> Supervised(ResNet(embedding_dim=64), num_classes=5)({"views": torch.randn(4, 1, 1, 500)}).shape
        torch.Size([4, 5])
    """

    needs_labels: ClassVar[bool] = True

    def __init__(
        self, encoder: Encoder, num_classes: int, augmentations: Augmentations = (), multi_label: bool = False
    ) -> None:
        super().__init__(encoder, augmentations)
        self.multi_label = multi_label
        self.head = nn.Linear(encoder.embedding_dim, num_classes)
        self.classification = ClassificationLoss(multi_label)

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Return the frames, augmented: (B, 1, C, S)."""
        return self.augment(signals, generator)

    def forward(self, batch: Batch) -> Tensor:
        """Return logits, (B, num_classes)."""
        logits: Tensor = self.head(self.encode(batch)[:, 0])
        return logits

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the cross-entropy."""
        loss: Tensor = self.classification(outputs, batch["target"])
        return loss

    def validation_step(self, batch: Batch) -> Batch:
        """Return the loss and scores by which instances are ranked.

        With softmax, the rank of a class's score among all instances depends on its other scores.
        """
        logits = self(batch)
        scores = logits.double() if self.multi_label else logits.double().softmax(1)
        return {"loss": self.global_loss(logits, batch), "scores": scores}

    def trained_head(self) -> nn.Module:
        """Return the classifier."""
        return self.head
