"""The paper's network: three convolutions and a linear layer (its appendix C.1)."""

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
SHORTEST = 388
"""Samples of the shortest frame."""


class Block(nn.Module):
    """Conv 7/3, BatchNorm, ReLU, MaxPool 2, Dropout."""

    def __init__(self, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        # No bias: BatchNorm subtracts it again, and Adam would move it by rounding errors.
        self.convolution = nn.Conv1d(channels, width, KERNEL, STRIDE, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, C, L) -> (N, C', L')."""
        if self._fusible(hidden):
            return fused_block(hidden, self.convolution, self.norm, self.dropout)
        pooled = max_pool1d(torch.relu(self.norm(self.convolution(hidden))), POOL)
        return drop(pooled, self.dropout, self.training)

    def _fusible(self, hidden: Tensor) -> bool:
        """Return whether the form for training on a CPU applies: not with statistics shared by ranks."""
        plain = type(self.norm) is nn.BatchNorm1d and not torch.is_autocast_enabled(hidden.device.type)
        return self.training and plain and hidden.device.type == "cpu" and not torch.compiler.is_compiling()


@ENCODERS.register("cnn")
class CNN(Encoder):
    """The network of the CLOCS paper: three convolutional blocks, a linear layer and a ReLU.

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
        """(N, C, S) -> (N, E)."""
        if signals.shape[-1] != self.num_samples:
            raise ConfigError(
                f"expected frames of shape (N, {self.in_channels}, {self.num_samples}), got {tuple(signals.shape)}"
            )
        hidden: Tensor = self.linear(self.blocks(self.masked(signals, lead_mask)).flatten(1))
        return torch.relu(hidden) if self.final_relu else hidden

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return the activations of the last block over time (N, T, 32); frames may have any length."""
        refuse_keep(self, keep)
        hidden: Tensor = self.blocks(self.masked(signals, lead_mask))
        return hidden.transpose(1, 2)

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return mean and maximum over time of every block (N, 104); frames may have any length."""
        hidden, found = self.masked(signals, lead_mask), []
        for block in self.blocks:
            hidden = block(hidden)
            found.append(mean_and_max(hidden))
        return torch.cat(found, dim=1)

    def num_tokens(self, num_samples: int) -> int:
        """Return the length of the last block's output."""
        length = num_samples
        for _ in WIDTHS:
            length = ((length - KERNEL) // STRIDE + 1) // POOL
        if length < 1:
            raise ConfigError(
                f"frames of {num_samples} samples are too short for this network; use at least {SHORTEST}"
            )
        return length

    def remove_head(self) -> None:
        """Remove the linear layer."""
        self.linear = nn.Identity()
