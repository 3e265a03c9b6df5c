"""Functions that convolutional encoders share: pooling over time, and the check that all tokens are computed."""

from __future__ import annotations

import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import Encoder


def mean_and_max(hidden: Tensor) -> Tensor:
    """Compute mean and maximum over time: (N, D, L) -> (N, 2 D)."""
    return torch.cat([hidden.mean(2), hidden.amax(2)], dim=1)


def refuse_keep(encoder: Encoder, keep: Tensor | None) -> None:
    """Refuse a choice of tokens, because a convolution computes all of them."""
    if keep is not None:
        raise ConfigError(
            f"{type(encoder).__name__} cannot leave tokens out. Pass keep=None, or use an encoder of patches."
        )
