"""BYOL: one network predicts what a delayed copy of it makes of another augmented copy."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.losses import BYOLLoss
from clocs.methods.method import AugmentedOptions, augmented, encode_views


class ByolModel(nn.Module):
    """An encoder with a predictor, and the encoder's moving average."""

    def __init__(self, encoder: nn.Module, embedding: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.predictor = nn.Sequential(nn.Linear(embedding, embedding), nn.ReLU())  # layer 4 repeated
        self.target = copy.deepcopy(encoder).requires_grad_(False)

    def forward(self, views: Tensor) -> Tensor:
        """(B, 2, C, S) -> (B, 2, 2, E): for each view its prediction, and the other view's target."""
        predictions = self.predictor(encode_views(self.encoder, views))
        with torch.no_grad():
            targets = encode_views(self.target, views).flip(1)
        return torch.stack([predictions, targets], dim=2)


class Byol(AugmentedOptions):
    """Gaussian noise by default: our choice, the paper does not say which its Table 1 used."""

    name: ClassVar[str] = "byol"
    purpose: ClassVar[Literal["segments", "evaluation"]] = "evaluation"
    together: ClassVar[bool] = False
    shares_batch: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False

    augmentations: tuple[dict[str, Any], ...] = Field(default=("gaussian_noise",), validate_default=True)
    decay: float = Field(default=0.9, ge=0, le=1)
    """Of the moving average; the paper's 0.9."""
    normalised: bool = False
    """Off: the paper's mean squared error; on: Grill et al.'s, between unit vectors."""

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, 1, S) -> (B, 2, S)."""
        return augmented(frames.repeat(1, 2, 1), self.augmentations, generator)

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """Online network, predictor, target network."""
        return ByolModel(encoder, embedding)

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """Mean over both directions."""
        predictions, aims = outputs.flatten(0, 1).unbind(1)
        loss: Tensor = BYOLLoss(self.normalised)(predictions, aims)
        return loss

    @torch.no_grad()
    def after_step(self, model: nn.Module) -> None:
        """Move the target towards the online network; BatchNorm's statistics are copied."""
        assert isinstance(model, ByolModel)
        for slow, fast in zip(model.target.parameters(), model.encoder.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.decay)
        for kept, now in zip(model.target.buffers(), model.encoder.buffers(), strict=True):
            kept.copy_(now)
