"""A method with tokens, masks and several outputs, as masked models have them."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.methods import Batch, Method, Outputs, register
from clocs.methods.method import Augmentations


@register("visible_tokens")
class VisibleTokens(Method):
    """Predict the embedding of a frame from the mean of the tokens that a random mask leaves visible.

    Args:
        encoder: An encoder with tokens.
        augmentations: Applied to each frame.
        visible: Probability that a token is visible. The first one always is.
    """

    needs_global_batch = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        visible: Annotated[float, Field(gt=0, le=1)] = 0.5,
    ) -> None:
        super().__init__(encoder, augmentations)
        assert encoder.token_dim is not None
        self.visible = visible
        self.predictor = nn.Linear(encoder.token_dim, encoder.embedding_dim)

    @property
    def is_stochastic(self) -> bool:
        """Return True, because masks are random."""
        return True

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Return the frames (B, 1, C, S)."""
        return self.augment(signals, generator)

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Return ``token_mask`` (B, T), true where a token is visible."""
        size = (len(views), self.encoder.num_tokens(views.shape[-1]))
        mask = torch.rand(size, generator=generator) < self.visible
        mask[:, 0] = True
        return {"token_mask": mask}

    def forward(self, batch: Batch) -> Outputs:
        """Return predictions and embeddings, each (B, E)."""
        lead_mask = batch["lead_mask"][:, 0] if "lead_mask" in batch else None
        tokens = self.encoder.tokens(batch["views"][:, 0], lead_mask)
        weight = batch["token_mask"].to(tokens.dtype).unsqueeze(-1)
        mean = (tokens * weight).sum(1) / weight.sum(1)
        return {"prediction": self.predictor(mean), "embedding": self.encode(batch)[:, 0]}

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Find each frame's embedding among those of the whole batch."""
        assert isinstance(outputs, dict)
        similarity = outputs["prediction"] @ outputs["embedding"].T
        return nn.functional.cross_entropy(similarity, torch.arange(len(similarity), device=similarity.device))
