"""Cosine similarities of whole batches, without ever holding all of them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from clocs.losses.full_precision import full_precision

LIMIT: Final = 16 * 2**20
"""Bytes of similarities held at once; more are made block by block, and all once more for the gradient."""


def units(vectors: Tensor) -> Tensor:
    """(..., E) of length 1, in float32 at least. By the largest element first: squares of large ones overflow.

    A zero vector stays zero, and has no gradient.
    """
    vectors = full_precision(vectors)
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    return normalize(vectors / largest.masked_fill(largest < 1e-12, torch.inf), dim=-1)


def log_sums(
    first: Tensor, second: Tensor, temperature: float, *, block: int | None = None, others: bool = False
) -> tuple[Tensor, Tensor]:
    """Log sum exp of ``first @ second.T / temperature``, along its rows (P, N) and along its columns (P, M).

    ``first`` (P, N, E), ``second`` (P, M, E): P products, computed ``block`` rows of all of them at a time (None: as
    many as ``LIMIT`` holds). ``others``: without the diagonal.
    """
    if block is None:
        block = max(1, LIMIT // (len(first) * second.shape[1] * second.element_size()))
    sums: tuple[Tensor, Tensor] = _LogSums.apply(  # type: ignore[no-untyped-call]
        first / temperature, second, block, others
    )
    return sums


class _LogSums(torch.autograd.Function):
    """Keeps the sums, not the similarities: the gradient makes them again, in the same blocks."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, block: int, others: bool) -> tuple[Tensor, Tensor]:
        rows = []
        columns = second.new_full(second.shape[:-1], -torch.inf)
        for begin in range(0, first.shape[1], block):
            similarities = _similarities(first, second, begin, block, others)
            rows.append(similarities.logsumexp(-1))
            columns = torch.logaddexp(columns, similarities.logsumexp(-2))
        sums = torch.cat(rows, 1), columns
        ctx.save_for_backward(first, second, *sums)
        ctx.block, ctx.others = block, others
        return sums

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The gradient of a log sum is each term's share in it."""
        first, second, rows, columns = ctx.saved_tensors
        of_rows, of_columns = (gradient.unsqueeze(place) for gradient, place in zip(gradients, (-1, -2), strict=True))
        rows, columns = rows.unsqueeze(-1), columns.unsqueeze(-2)
        of_first, of_second = torch.empty_like(first), torch.zeros_like(second)
        for begin in range(0, first.shape[1], ctx.block):
            part = slice(begin, begin + ctx.block)
            similarities = _similarities(first, second, begin, ctx.block, ctx.others)
            shares = (similarities - rows[:, part]).exp_().mul_(of_rows[:, part])
            shares += similarities.sub_(columns).exp_().mul_(of_columns)
            of_first[:, part] = shares @ second
            of_second.baddbmm_(shares.mT, first[:, part])
        return of_first, of_second, None, None


def _similarities(first: Tensor, second: Tensor, begin: int, block: int, others: bool) -> Tensor:
    """(P, block, M): some rows."""
    found = first[:, begin : begin + block] @ second.mT
    if others:
        found.diagonal(begin, 1, 2).fill_(-torch.inf)
    return found
