"""Encoders from plain modules."""

from __future__ import annotations

from torch import Tensor, nn

from clocs.encoders.encoder import Encoder


class WrappedEncoder(Encoder):
    """Encoder that calls a plain module, built by :func:`wrap`."""

    def __init__(self, module: nn.Module, in_channels: int, embedding_dim: int) -> None:
        super().__init__(in_channels, embedding_dim)
        self.module = module

    @property
    def label(self) -> str:
        """Return the name of the wrapped module's class."""
        return type(self.module).__qualname__

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames: (N, C, S) -> (N, E). Absent leads are set to zero."""
        embeddings: Tensor = self.module(self.masked(signals, lead_mask))
        return embeddings


def wrap(module: nn.Module, *, in_channels: int, embedding_dim: int) -> Encoder:
    """Return an encoder that calls a plain module.

    The module takes frames (N, C, S) and returns embeddings (N, E). Leads that a mask marks as absent are zero. The
    encoder has no tokens and no features; write a subclass of :class:`Encoder` to have both. Since the module is not
    registered, loading the trained encoder needs the module again.

    Args:
        module: The module. An :class:`Encoder` is returned as it is.
        in_channels: Number of leads C.
        embedding_dim: Dimension E of an embedding.

    Returns:
        The encoder.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> network = nn.Sequential(nn.Conv1d(12, 16, 7, 5), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        >>> encoder = wrap(network, in_channels=12, embedding_dim=16)
        >>> encoder(torch.randn(2, 12, 500), lead_mask=torch.ones(2, 12, dtype=torch.bool)).shape
        torch.Size([2, 16])
    """
    return module if isinstance(module, Encoder) else WrappedEncoder(module, in_channels, embedding_dim)
