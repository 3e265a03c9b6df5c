"""SimCLR's loss: two views of one instance attract each other, all else repels; blind to patients."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from clocs.losses.cosine import log_sums, units

Form = Literal["two_view", "nt_xent"]


def info_nce(embeddings: Tensor, *, temperature: float = 0.1, form: Form = "two_view") -> Tensor:
    """InfoNCE of two views: embeddings (B, 2, E) -> scalar, of cosine similarities over ``temperature``.

    ``two_view`` (our reading of the paper): each instance is found among the B of the other view; the mean over
    instances, both directions added as in the paper's Eq. 4. So it equals ``patient_nce`` with
    ``off_diagonals="none"``, and with all patients different also its default: methods differ by their positives,
    not by scale.
    ``nt_xent`` (Chen et al. 2020): each of the 2B is found among the other 2B - 1; the mean over all 2B.
    A zero vector has similarity 0 to all, and no gradient. Half types are computed, and returned, in float32.
    """
    if embeddings.ndim != 3 or embeddings.shape[0] < 1 or embeddings.shape[1] != 2:
        raise ValueError(f"embeddings must be (B, 2, E), two views, not {tuple(embeddings.shape)}")
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, not {temperature}")
    if form not in get_args(Form):
        raise ValueError(f"form must be one of {', '.join(get_args(Form))}, not '{form}'")
    with torch.autocast(embeddings.device.type, enabled=False):
        first, second = units(embeddings).unsqueeze(0).unbind(2)
        positives = (first * second).sum(-1) / temperature
        if form == "nt_xent":
            both = torch.cat([first, second], 1)
            rows, _ = log_sums(both, both, temperature, others=True)
            return rows.mean() - positives.mean()
        rows, columns = log_sums(first, second, temperature)
        return (rows + columns - 2 * positives).mean()
