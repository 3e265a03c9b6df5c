"""Networks of recordings that are trained with labels: leads concatenated, tokens pooled by attention, and a head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from clocs.encoders import Encoder
from clocs.methods import Batch, Supervised
from clocs.methods.method import Outputs

NUM_QUERIES, VALUE_DIM = 8, 64
"""Queries of the attention pooling, and dimension of what each of them reads."""


class ConcatenatedLeads(Encoder):
    """Encoder of frames of several leads that embeds each lead with the same network and concatenates them.

    Args:
        encoder: Encoder of single leads.
        num_leads: Number of leads.

    Example:
        >>> from clocs.encoders import ResNet
        >>> ConcatenatedLeads(ResNet(embedding_dim=16), num_leads=3)(torch.randn(4, 3, 500)).shape
        torch.Size([4, 48])
    """

    def __init__(self, encoder: Encoder, num_leads: int) -> None:
        super().__init__(num_leads, num_leads * encoder.embedding_dim)
        self.encoder = encoder

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames, zero for missing leads.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, C E).
        """
        embeddings: Tensor = self.encoder(signals.flatten(0, 1).unsqueeze(1)).unflatten(0, signals.shape[:2])
        if lead_mask is not None:
            embeddings = embeddings.masked_fill(~lead_mask.unsqueeze(2), 0)
        return embeddings.flatten(1)


class AttentionPooling(Encoder):
    """Pooling of the tokens of a recording by learned queries. Tokens are embeddings of leads of frames.

    A token's weight depends on its embedding and on its lead, so that a query can read some leads, or some beats.

    Args:
        num_leads: Number of leads. The tokens of a frame are its leads, in their order.
        token_dim: Dimension of a token.
        dropout: Probability with which an input value is dropped.

    Example:
        >>> pooling = AttentionPooling(num_leads=2, token_dim=16)
        >>> pooling(torch.randn(4, 6, 16), torch.ones(4, 6, dtype=torch.bool)).shape
        torch.Size([4, 512])
    """

    def __init__(self, num_leads: int, token_dim: int, dropout: float = 0.1) -> None:
        super().__init__(num_leads, NUM_QUERIES * VALUE_DIM)
        self.dropout = nn.Dropout(dropout)
        self.scores, self.values = nn.Linear(token_dim, NUM_QUERIES), nn.Linear(token_dim, NUM_QUERIES * VALUE_DIM)
        self.lead_scores = nn.Parameter(torch.randn(num_leads, NUM_QUERIES))

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the pooled tokens.

        Args:
            signals: Tokens (N, T, E), where T is a multiple of the number of leads.
            lead_mask: Tokens that are present (N, T), bool; None if all are.

        Returns:
            Embeddings (N, queries x values).
        """
        tokens = self.dropout(signals)
        scores = self.scores(tokens) + self.lead_scores.repeat(tokens.shape[1] // len(self.lead_scores), 1)
        if lead_mask is not None:
            scores = scores.masked_fill(~lead_mask.unsqueeze(2), torch.finfo(scores.dtype).min)
        weights = scores.softmax(1)  # (N, T, queries)
        values = self.values(tokens).unflatten(2, (NUM_QUERIES, VALUE_DIM))
        return torch.einsum("ntq,ntqv->nqv", weights, values).flatten(1)


class RecordingClassifier(Supervised):
    """Encoder and linear head of a benchmark, for classes or for standardized numbers.

    Args:
        encoder: The encoder to train.
        num_classes: Number of classes, or of numbers.
        multi_label: True if a recording may have several classes, or none.
        is_regression: True for numbers.
        encoder_rate_factor: Factor of the encoder's learning rate.

    Example:
        >>> from clocs.encoders import ResNet
        >>> model = RecordingClassifier(ResNet(in_channels=12), num_classes=5, multi_label=True)
        >>> model({"views": torch.randn(4, 1, 12, 250)}).shape
        torch.Size([4, 5])
    """

    def __init__(
        self,
        encoder: Encoder,
        num_classes: int,
        *,
        multi_label: bool = False,
        is_regression: bool = False,
        encoder_rate_factor: float = 1.0,
    ) -> None:
        super().__init__(encoder, num_classes, multi_label=multi_label)
        self.is_regression, self.encoder_rate_factor = is_regression, encoder_rate_factor

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the cross-entropy, or the mean squared error of numbers.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        if not self.is_regression:
            return super().loss(outputs, batch)
        assert isinstance(outputs, Tensor)
        return mse_loss(outputs, batch["target"])

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters of the head and of the encoder, which may have a smaller learning rate."""
        trained = [each for each in self.encoder.parameters() if each.requires_grad]
        return [
            {"params": list(self.head.parameters()), "rate_factor": 1.0},
            {"params": trained, "rate_factor": self.encoder_rate_factor},
        ]
