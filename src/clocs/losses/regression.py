"""BYOL's loss: one network's prediction approaches what a slower copy of it makes of the other view."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import mse_loss

from clocs.losses.cosine import units
from clocs.losses.full_precision import full_precision


def regression(predictions: Tensor, targets: Tensor, *, normalised: bool = False) -> Tensor:
    """Distance of predictions (N, E) from targets (N, E) -> scalar; targets receive no gradient.

    The mean squared error over all elements (the paper), or with ``normalised`` 2 - 2 cos, the squared distance
    of the vectors at length 1, as a mean over N (Grill et al. 2020). There, a zero vector has cosine 0 and no
    gradient. Half types are computed, and returned, in float32.
    """
    if predictions.ndim != 2 or predictions.shape != targets.shape or len(predictions) < 1:
        given = f"{tuple(predictions.shape)} and {tuple(targets.shape)}"
        raise ValueError(f"predictions and targets must both be (N, E), not {given}")
    predictions, targets = full_precision(predictions), full_precision(targets.detach())
    if normalised:
        return 2 - 2 * (units(predictions) * units(targets)).sum(-1).mean()
    return mse_loss(predictions, targets)
