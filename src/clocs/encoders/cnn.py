"""Network of the CLOCS paper: three convolutions and a linear layer (appendix C.1)."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import max_pool1d

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import ENCODERS, Encoder
from clocs.encoders.fused_block import fused_block
from clocs.encoders.pooling import mean_and_max, refuse_keep

WIDTHS = (4, 16, 32)
KERNEL, STRIDE, POOL = 7, 3, 2
MIN_SAMPLES = 388
"""Samples of the shortest frame that the network takes."""


class Block(nn.Module):
    """Convolution (kernel 7, stride 3), BatchNorm, ReLU, max pooling by 2, and dropout."""

    def __init__(self, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        # No bias: BatchNorm subtracts it again, and Adam would move it by rounding errors.
        self.convolution = nn.Conv1d(channels, width, KERNEL, STRIDE, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the block: (N, C, L) -> (N, C', L')."""
        if self._can_fuse(hidden):
            return fused_block(hidden, self.convolution, self.norm, self.dropout)
        pooled = max_pool1d(torch.relu(self.norm(self.convolution(hidden))), POOL)
        return drop(pooled, self.dropout, self.training)

    def _can_fuse(self, hidden: Tensor) -> bool:
        """Return whether the fused block for training on a CPU applies. It does not support statistics over ranks."""
        plain = type(self.norm) is nn.BatchNorm1d and not torch.is_autocast_enabled(hidden.device.type)
        return self.training and plain and hidden.device.type == "cpu" and not torch.compiler.is_compiling()


@ENCODERS.register("cnn")
class CNN(Encoder):
    """Network of the CLOCS paper (appendix C.1): three convolutional blocks, a linear layer and a ReLU.

    Args:
        in_channels: Number of leads C; 1 in the paper.
        embedding_dim: Dimension E of an embedding.
        num_samples: Samples S of a frame, at least 388.
        dropout: Probability with which an activation is dropped after each block.
        final_relu: Whether a ReLU follows the linear layer, as in the paper's table. The released code has none.

    Example:
        >>> import torch
        >>> CNN(embedding_dim=64)(torch.randn(8, 1, 2500)).shape
        torch.Size([8, 64])
    """

    def __init__(
        self,
        in_channels: Annotated[int, Field(gt=0)] = 1,
        embedding_dim: Annotated[int, Field(gt=0)] = 128,
        num_samples: Annotated[int, Field(gt=0)] = 2500,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1,
        final_relu: bool = True,
    ) -> None:
        super().__init__(in_channels, embedding_dim)
        pairs = zip((in_channels, *WIDTHS[:-1]), WIDTHS, strict=True)
        self.token_dim, self.num_features = WIDTHS[-1], 2 * sum(WIDTHS)
        self.blocks = nn.Sequential(*(Block(*pair, dropout) for pair in pairs))
        self.linear: nn.Module = nn.Linear(WIDTHS[-1] * self.num_tokens(num_samples), embedding_dim)
        self.num_samples, self.final_relu = num_samples, final_relu

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        if signals.shape[-1] != self.num_samples:
            raise ConfigError(
                f"Expected frames of shape (N, {self.in_channels}, {self.num_samples}), got {tuple(signals.shape)}"
            )
        hidden: Tensor = self.linear(self.blocks(self.masked(signals, lead_mask)).flatten(1))
        return torch.relu(hidden) if self.final_relu else hidden

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return the activations of the last block over time. Frames may have any length.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Must be None: this encoder computes all tokens.

        Returns:
            Tokens (N, T, 32).
        """
        refuse_keep(self, keep)
        hidden: Tensor = self.blocks(self.masked(signals, lead_mask))
        return hidden.transpose(1, 2)

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return mean and maximum over time of every block. Frames may have any length.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, 104).
        """
        hidden, pooled = self.masked(signals, lead_mask), []
        for block in self.blocks:
            hidden = block(hidden)
            pooled.append(mean_and_max(hidden))
        return torch.cat(pooled, dim=1)

    def num_tokens(self, num_samples: int) -> int:
        """Return the length of the last block's output.

        Args:
            num_samples: Samples S of a frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: The frame is too short.
        """
        length = num_samples
        for _ in WIDTHS:
            length = ((length - KERNEL) // STRIDE + 1) // POOL
        if length < 1:
            raise ConfigError(
                f"Frames of {num_samples} samples are too short for this network. Use at least {MIN_SAMPLES}."
            )
        return length

    def remove_head(self) -> None:
        """Remove the linear layer."""
        self.linear = nn.Identity()
