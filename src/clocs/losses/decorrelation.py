"""What keeps embeddings from narrowing: their numbers should not repeat each other (Zbontar et al., 2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from clocs.losses.full_precision import full_precision

FLOOR = 1e-6
"""Added to variances: a number that never varies has no correlation."""


def decorrelation(embeddings: Tensor) -> Tensor:
    """The squared correlations between the E numbers of embeddings (N, E), each with all others, on average summed.

    0 where none follows from another, E - 1 where all are one. Half types are computed, and returned, in float32.
    """
    if embeddings.ndim != 2 or len(embeddings) < 2:
        raise ValueError(f"embeddings must be (N, E) with N of 2 or more, not {tuple(embeddings.shape)}")
    with torch.autocast(embeddings.device.type, enabled=False):
        values = full_precision(embeddings)
        centred = values - values.mean(0)
        scaled = centred / (centred.square().mean(0) + FLOOR).sqrt()
        correlations = scaled.mT @ scaled / len(scaled)
        return (correlations.square().sum() - correlations.diagonal().square().sum()) / embeddings.shape[1]
