"""The paper's loss: views of one instance attract each other, and so do instances of one patient (Eq. 1-4)."""

from __future__ import annotations

from itertools import combinations
from typing import Literal, get_args

import torch
from torch import Tensor

from clocs.losses.cosine import log_sums, units

OffDiagonals = Literal["both", "alike", "one_triangle", "none"]
Pairs = Literal["all", "last"]


def patient_nce(
    embeddings: Tensor,
    patients: Tensor,
    *,
    temperature: float = 0.1,
    off_diagonals: OffDiagonals = "both",
    pairs: Pairs = "all",
    block: int | None = None,
) -> Tensor:
    """Patient-specific noise contrastive estimation: embeddings (B, V, E), patients (B,) int64 -> scalar.

    For two views, with s the (B, B) cosine similarities over ``temperature``: the mean of -log softmax(s) over
    the diagonal, plus its mean over the cells i != k of one patient (0 if there are none), along rows (first
    view to second) and along columns (second to first). The loss is the mean over all unordered pairs of views.
    A zero vector has similarity 0 to all, and no gradient. Half types are computed, and returned, in float32.

    The paper's equations are the default. Options that differ:
    ``off_diagonals="alike"``: one mean over all positive cells. The paper's second mean gives a handful of cells as
    much weight as the whole diagonal, where a batch has few instances of one patient.
    ``off_diagonals="one_triangle"``: as the released code, rows see the cells i < k only, columns i > k only.
    ``off_diagonals="none"``: the diagonal alone, which is blind to patients.
    ``pairs="last"``: as the released code, whose loss overwrote itself, the last pair of views alone.

    Time grows with the square of B and of V; memory does not: ``block`` rows of similarities are held at once.
    """
    _check(embeddings, patients, temperature, off_diagonals, pairs, block)
    with torch.autocast(embeddings.device.type, enabled=False):
        views = units(embeddings).transpose(0, 1)
        positives, weights = _positives(views, patients, off_diagonals)
        chosen = list(combinations(range(len(views)), 2))
        first, second = map(list, zip(*(chosen[-1:] if pairs == "last" else chosen), strict=True))
        rows, columns = log_sums(views[first], views[second], temperature, block=block)
        return ((rows + columns) @ weights - positives[first, second] * (2 / temperature)).mean()


def _check(
    embeddings: Tensor, patients: Tensor, temperature: float, off_diagonals: str, pairs: str, block: int | None
) -> None:
    if embeddings.ndim != 3 or embeddings.shape[0] < 1 or embeddings.shape[1] < 2:
        raise ValueError(f"embeddings must be (B, V, E) with V >= 2 views, not {tuple(embeddings.shape)}")
    if patients.shape != embeddings.shape[:1]:
        raise ValueError(f"patients must be ({embeddings.shape[0]},), one per instance, not {tuple(patients.shape)}")
    if temperature <= 0:
        raise ValueError(f"temperature must be above 0, not {temperature}")
    if block is not None and block < 1:
        raise ValueError(f"block must be at least 1 row, or None, not {block}")
    for name, given, allowed in (("off_diagonals", off_diagonals, OffDiagonals), ("pairs", pairs, Pairs)):
        if given not in get_args(allowed):
            raise ValueError(f"{name} must be one of {', '.join(get_args(allowed))}, not '{given}'")


def _positives(views: Tensor, patients: Tensor, off_diagonals: OffDiagonals) -> tuple[Tensor, Tensor]:
    """What attracts: per two views the mean cosines of positive cells (V, V), those of both kinds added unless all
    count alike; and the weight (B,) of each instance's log-denominator, which is its share in these means.

    The cells of a patient sum to the product of the patient's sums, so no (B, B) matrix is needed. Both
    triangles together are all its cells, so "one_triangle" has the same numerators; only the weights differ:
    along rows and along columns, an instance then counts its patient's later instances alone.
    """
    batch = views.shape[1]
    diagonal = _gram(views) / batch
    if off_diagonals == "none":
        return diagonal, views.new_full((batch,), 1 / batch)
    _, group, sizes = torch.unique(patients, return_inverse=True, return_counts=True)
    others = sizes[group] - 1
    repeated = views * (others > 0).unsqueeze(-1)  # patients seen once would only add rounding errors
    sums = torch.zeros_like(repeated[:, : len(sizes)]).index_add(1, group, repeated)
    pairs = _gram(sums) - _gram(repeated)
    if off_diagonals == "alike":
        cells = batch + others.sum()
        return (_gram(views) + pairs) / cells, (1 + others).to(views.dtype) / cells
    counts = others if off_diagonals == "both" else _later(group, sizes)
    return diagonal + pairs / others.sum().clamp_min(1), 1 / batch + counts.to(views.dtype) / counts.sum().clamp_min(1)


def _gram(views: Tensor) -> Tensor:
    """(V, N, E) -> (V, V): for two views, the sum of the dot products of their N vectors."""
    flat = views.flatten(1)
    return flat @ flat.T


def _later(group: Tensor, sizes: Tensor) -> Tensor:
    """(B,): how many instances of the same group follow in the batch."""
    position = group.argsort(stable=True).argsort()
    return sizes.cumsum(0)[group] - 1 - position
