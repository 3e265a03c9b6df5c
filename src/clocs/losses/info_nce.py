"""SimCLR's loss: two views of one instance attract each other, all else repels; blind to patients."""

from __future__ import annotations

from typing import Final, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

Form = Literal["two_view", "nt_xent"]

LIMIT: Final = 16 * 2**20
"""Bytes of similarities held at once. More are made block by block, and once more for the backward pass: on a
CPU that takes about as long as keeping them, since large tensors are slow to allocate and leave the cache."""


def info_nce(embeddings: Tensor, *, temperature: float = 0.1, form: Form = "two_view") -> Tensor:
    """InfoNCE of two views: embeddings (B, 2, E) -> scalar, of cosine similarities over ``temperature``.

    ``two_view`` (the paper): each instance is found among the B of the other view; the mean over instances,
    both directions added as in the paper's Eq. 4. So it equals ``patient_nce`` with ``off_diagonals="none"``,
    and with all patients different also its default: methods differ by their positives, not by scale.
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
        first, second = _units(embeddings).unbind(1)
        positives = (first * second).sum(-1) / temperature
        if form == "nt_xent":
            both = torch.cat([first, second])
            return _denominators(both, both, temperature, others=True).mean() - positives.mean()
        rows = _denominators(first, second, temperature)
        columns = _denominators(second, first, temperature)
        return (rows + columns - 2 * positives).mean()


def _units(vectors: Tensor) -> Tensor:
    """(..., E) of length 1, in float32 at least. By the largest element first: squares of large ones overflow."""
    vectors = vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    return normalize(vectors / largest.masked_fill(largest < 1e-12, torch.inf), dim=-1)


def _denominators(queries: Tensor, keys: Tensor, temperature: float, *, others: bool = False) -> Tensor:
    """(N, E), (M, E) -> (N,): log sum exp over keys; ``others``: without the key of the query's own index."""
    rows = max(1, LIMIT // (len(keys) * keys.element_size()))
    if rows >= len(queries):
        return _log_sums(queries, keys, temperature, 0 if others else None)
    parts = [
        checkpoint(
            _log_sums,
            part,
            keys,
            temperature,
            index * rows if others else None,
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for index, part in enumerate(torch.split(queries, rows))
    ]
    return torch.cat(parts)


def _log_sums(queries: Tensor, keys: Tensor, temperature: float, start: int | None) -> Tensor:
    """One block of rows; ``start``: the key that is the first query itself, the next of the second, ..."""
    similarities = (queries / temperature) @ keys.T
    if start is not None:
        similarities.diagonal(start).fill_(-torch.inf)
    return similarities.logsumexp(1)
