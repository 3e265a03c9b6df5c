"""Residual network, larger than that of the paper. Global pooling allows frames of any length."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import pad

from clocs.core.errors import ConfigError
from clocs.encoders.convolution import convolve
from clocs.encoders.encoder import ENCODERS, Encoder
from clocs.encoders.pooling import mean_and_max, refuse_keep

Positive = Annotated[int, Field(gt=0)]


def _odd(kernel_size: int) -> int:
    if kernel_size % 2 == 0:
        raise ValueError(f"must be odd, so that both paths through a block have the same length, not {kernel_size}")
    return kernel_size


def _convolution(channels: int, width: int, kernel_size: int, stride: int) -> nn.Conv2d:
    """Return a convolution over time that keeps the length but for the stride; BatchNorm would remove a bias again."""
    return nn.Conv2d(channels, width, (1, kernel_size), (1, stride), (0, kernel_size // 2), bias=False)


class Block(nn.Module):
    """Conv, BatchNorm, ReLU, Dropout, Conv, BatchNorm, and a shortcut of Conv 1 and BatchNorm; ReLU of their sum."""

    def __init__(self, channels: int, width: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.first = _convolution(channels, width, kernel_size, 2)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = _convolution(width, width, kernel_size - 2, 1)
        self.second_norm = nn.BatchNorm2d(width)
        self.shortcut = _convolution(channels, width, 1, 2)
        self.shortcut_norm = nn.BatchNorm2d(width)
        self.dropout = dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the block: (N, C, 1, L) -> (N, C', 1, L / 2). Values that no gradient needs are overwritten."""
        inner = drop(self.first_norm(self.first(hidden)).relu_(), self.dropout, self.training)
        outer: Tensor = self.shortcut_norm(self.shortcut(hidden))
        return outer.add_(self.second_norm(self.second(inner))).relu_()


@ENCODERS.register("resnet")
class ResNet(Encoder):
    """A residual network for any number of leads and frames of any length; 209,720 parameters with all defaults.

    The layers are a stem, blocks, mean and maximum over time, and a linear layer without a ReLU after it. Convolutions
    are two-dimensional, over (N, C, 1, L) with channels last in memory. On a CPU this is 1.8 times as fast as
    one-dimensional convolutions, which have no such layout.

    Args:
        in_channels: Number of leads C.
        embedding_dim: Dimension E of an embedding.
        width: Channels of the stem and of the first block; the others have 2, 3, ... times as many.
        depth: Number of residual blocks, each of which halves the length.
        kernel_size: Samples of a block's first convolution, odd; the second has two fewer.
        stem_kernel_size: Samples of the stem's convolution.
        stem_stride: Stride of the stem; at 500 Hz, 5 makes the blocks begin at 100 Hz.
        dropout: Probability with which an activation between the two convolutions of a block is dropped.
        pooling: Blocks that feed the linear layer, by their pooled activations: ``last`` or ``all_blocks``.
        head: ``linear``: the embedding is a linear function of the pooled activations. ``none``: it is the pooled
            activations, and ``embedding_dim`` is their number, 192 with all other defaults; for methods that train
            tokens only.

    Raises:
        ConfigError: ``kernel_size`` is even, or without a head ``embedding_dim`` is not the number of pooled features.

    Example:
        >>> import torch
        >>> encoder = ResNet(in_channels=12, embedding_dim=256)
        >>> encoder(torch.randn(2, 12, 500)).shape
        torch.Size([2, 256])
        >>> encoder.tokens(torch.randn(2, 12, 500)).shape
        torch.Size([2, 7, 96])
    """

    def __init__(
        self,
        in_channels: Positive = 1,
        embedding_dim: Positive = 128,
        width: Positive = 24,
        depth: Positive = 4,
        kernel_size: Annotated[int, Field(ge=3), AfterValidator(_odd)] = 7,
        stem_kernel_size: Positive = 15,
        stem_stride: Positive = 5,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        pooling: Literal["last", "all_blocks"] = "last",
        head: Literal["linear", "none"] = "linear",
    ) -> None:
        super().__init__(in_channels, embedding_dim)
        _odd(kernel_size)
        widths = [width * number for number in range(1, depth + 1)]
        self.token_dim, self.num_features = widths[-1], 2 * sum(widths)
        self.stem = nn.Conv1d(in_channels, width, stem_kernel_size, stem_stride, bias=False)
        self.stem_norm = nn.BatchNorm2d(width)
        pairs = zip([width, *widths[:-1]], widths, strict=True)
        self.blocks = nn.Sequential(*(Block(*pair, kernel_size, dropout) for pair in pairs))
        self.pooled_blocks = depth if pooling == "all_blocks" else 1
        self.num_pooled = 2 * sum(widths[-self.pooled_blocks :])
        if head == "none" and embedding_dim != self.num_pooled:
            raise ConfigError(
                f"embedding_dim={embedding_dim}: without a head it is the number of pooled activations, "
                f"{self.num_pooled}"
            )
        self.linear: nn.Module = nn.Linear(self.num_pooled, embedding_dim) if head == "linear" else nn.Identity()
        self.margin = stem_kernel_size // 2

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(self._pooled(signals, lead_mask, self.pooled_blocks))
        return embeddings

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return the activations of the last block over time.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Must be None: this encoder computes all tokens.

        Returns:
            Tokens (N, T, D).
        """
        refuse_keep(self, keep)
        hidden: Tensor = self.blocks(self._stem(signals, lead_mask))
        return hidden.squeeze(2).transpose(1, 2)

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return mean and maximum over time of every block.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, P).
        """
        return self._pooled(signals, lead_mask, len(self.blocks))

    def embed_features(self, features: Tensor) -> Tensor:
        """Return the embeddings of frames from their features.

        Args:
            features: Features (N, P).

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(features[:, -self.num_pooled :])
        return embeddings

    def num_tokens(self, num_samples: int) -> int:
        """Return the length of the last block's output.

        Args:
            num_samples: Samples S of a frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: The frame is too short.
        """
        length = (num_samples + 2 * self.margin - self.stem.kernel_size[0]) // self.stem.stride[0] + 1
        if num_samples < 1 or length < 1:
            raise ConfigError(f"Frames of {num_samples} samples are too short for this network. Use longer frames.")
        for _ in self.blocks:
            length = (length + 1) // 2
        return length

    def remove_head(self) -> None:
        """Remove the linear layer."""
        self.linear = nn.Identity()

    def _stem(self, signals: Tensor, lead_mask: Tensor | None) -> Tensor:
        """Apply the stem: (N, C, S) -> (N, C', 1, L)."""
        padded = pad(self.masked(signals, lead_mask), (self.margin, self.margin))
        stem = convolve(padded, self.stem).transpose(1, 2).unsqueeze(2)
        hidden: Tensor = self.stem_norm(stem)
        return hidden.relu_()

    def _pooled(self, signals: Tensor, lead_mask: Tensor | None, count: int) -> Tensor:
        """Return mean and maximum over time of the last ``count`` blocks."""
        hidden, pooled = self._stem(signals, lead_mask), []
        for position, block in enumerate(self.blocks):
            hidden = block(hidden)
            if position >= len(self.blocks) - count:
                pooled.append(mean_and_max(hidden.squeeze(2)))
        return torch.cat(pooled, dim=1)
