"""The paper's network: three convolutions and a linear layer (its appendix C.1)."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import EncoderKind, EncoderOptions

WIDTHS = (4, 16, 32)
KERNEL, STRIDE, POOL = 7, 3, 2


class CnnOptions(EncoderOptions):
    """Options of the paper's network."""

    dropout: float = Field(default=0.1, ge=0, lt=1)
    final_relu: bool = True
    """Off: as in the released code, which has no ReLU after layer 4; the paper's table has one."""


class Cnn(nn.Module):
    """Conv 7/3, BatchNorm, ReLU, MaxPool 2, Dropout, three times; Linear; ReLU."""

    def __init__(self, options: CnnOptions) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, length = options.channels, options.samples
        for width in WIDTHS:
            layers += [
                # No bias: BatchNorm takes it away again, and Adam would drive it about by rounding errors.
                nn.Conv1d(channels, width, KERNEL, STRIDE, bias=False),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.MaxPool1d(POOL),
                nn.Dropout(options.dropout),
            ]
            channels, length = width, ((length - KERNEL) // STRIDE + 1) // POOL
        if length < 1:
            raise ConfigError(f"frames of {options.samples} samples are too short for this network; use at least 388")
        self.convolutions = nn.Sequential(*layers)
        self.linear = nn.Linear(channels * length, options.embedding)
        self.final_relu = options.final_relu

    def forward(self, signals: Tensor) -> Tensor:
        """(N, C, S) -> (N, E)."""
        hidden = self.linear(self.convolutions(signals).flatten(1))
        return torch.relu(hidden) if self.final_relu else hidden


CNN_KIND = EncoderKind("cnn", "the paper's three-layer convolutional network", CnnOptions, Cnn)
