"""Supervised training: the paper's upper baseline with all labels, and fine-tuning with some."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.losses import ClassificationLoss
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs


@METHODS.register("supervised")
class Supervised(Method):
    """Supervised training of an encoder with a linear classifier, the paper's layer 5.

    Args:
        encoder: The encoder to train.
        num_classes: Number of classes.
        augmentations: Applied to each frame.
        multi_label: False: softmax, where an instance has one class. True: a logistic function for each class, where
            an instance may have several classes or none.

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
        """Augment frames.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 1, C, S).
        """
        return self.augment(signals, generator)

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Logits (B, num_classes).
        """
        logits: Tensor = self.head(self.encode(batch)[:, 0])
        return logits

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the cross-entropy.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        loss: Tensor = self.classification(outputs, batch["target"])
        return loss

    def validation_step(self, batch: Batch) -> Batch:
        """Return the loss and the scores of the classes.

        Args:
            batch: The batch, or this rank's part of it.

        Returns:
            ``loss`` and ``scores`` (B, num_classes), float64. Without ``multi_label``, scores are softmax outputs,
            because the ranks of logits among instances would ignore the other classes.
        """
        logits = self(batch)
        scores = logits.double() if self.multi_label else logits.double().softmax(1)
        return {"loss": self.global_loss(logits, batch), "scores": scores}

    def trained_head(self) -> nn.Module:
        """Return the linear classifier."""
        return self.head
