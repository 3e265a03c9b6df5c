"""The paper's network: three convolutions and a linear layer (its appendix C.1)."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import dropout, max_pool1d

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import EncoderKind, EncoderOptions
from clocs.encoders.fused_block import fused_block

WIDTHS = (4, 16, 32)
KERNEL, STRIDE, POOL = 7, 3, 2


class CnnOptions(EncoderOptions):
    """Options of the paper's network."""

    dropout: float = Field(default=0.1, ge=0, lt=1)
    final_relu: bool = True
    """Off: as in the released code, which has no ReLU after layer 4; the paper's table has one."""


class Block(nn.Module):
    """Conv 7/3, BatchNorm, ReLU, MaxPool 2, Dropout."""

    def __init__(self, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        # No bias: BatchNorm takes it away again, and Adam would drive it about by rounding errors.
        self.convolution = nn.Conv1d(channels, width, KERNEL, STRIDE, bias=False)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, C, L) -> (N, C', L')."""
        if self._fusible(hidden):
            return fused_block(hidden, self.convolution, self.norm, self.dropout)
        pooled = max_pool1d(torch.relu(self.norm(self.convolution(hidden))), POOL)
        return dropout(pooled, self.dropout, self.training)

    def _fusible(self, hidden: Tensor) -> bool:
        """Whether the form written for training on a CPU applies: not with statistics shared by ranks."""
        plain = type(self.norm) is nn.BatchNorm1d and not torch.is_autocast_enabled(hidden.device.type)
        return self.training and plain and hidden.device.type == "cpu" and not torch.compiler.is_compiling()


class Cnn(nn.Module):
    """Three blocks; Linear; ReLU."""

    def __init__(self, options: CnnOptions) -> None:
        super().__init__()
        channels, length = options.channels, options.samples
        blocks = []
        for width in WIDTHS:
            blocks.append(Block(channels, width, options.dropout))
            channels, length = width, ((length - KERNEL) // STRIDE + 1) // POOL
        if length < 1:
            raise ConfigError(f"frames of {options.samples} samples are too short for this network; use at least 388")
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(channels * length, options.embedding)
        self.final_relu = options.final_relu

    def forward(self, signals: Tensor) -> Tensor:
        """(N, C, S) -> (N, E)."""
        hidden = self.linear(self.blocks(signals).flatten(1))
        return torch.relu(hidden) if self.final_relu else hidden


CNN_KIND = EncoderKind("cnn", "the paper's three-layer convolutional network", CnnOptions, Cnn)
