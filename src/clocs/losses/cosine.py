"""Cosine similarities of whole batches, computed in blocks."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from clocs.losses.full_precision import full_precision

LIMIT: Final = 16 * 2**20
"""Bytes of similarities held at once. More are computed block by block, and again for the gradient."""


def units(vectors: Tensor) -> Tensor:
    """Scale vectors (..., E) to length 1, in float32 at least.

    They are divided by their largest element first, because squares of large elements overflow. A zero vector stays
    zero and has no gradient.
    """
    vectors = full_precision(vectors)
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    return normalize(vectors / largest.masked_fill(largest < 1e-12, torch.inf), dim=-1)


def log_sums(
    first: Tensor, second: Tensor, temperature: float, *, block: int | None = None, others: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute log sum exp of ``first @ second.T / temperature`` along rows and along columns.

    Args:
        first: (P, N, E): the left factors of P products.
        second: (P, M, E): the right factors.
        temperature: Divisor of the products.
        block: Rows of all products computed at once; None: as many as ``LIMIT`` holds.
        others: Leave out the diagonal.

    Returns:
        The sums along rows (P, N) and along columns (P, M).
    """
    if block is None:
        block = max(1, LIMIT // (len(first) * second.shape[1] * second.element_size()))
    sums: tuple[Tensor, Tensor] = _LogSums.apply(  # type: ignore[no-untyped-call]
        first / temperature, second, block, others
    )
    return sums


class _LogSums(torch.autograd.Function):
    """Keep the sums and not the similarities, which the gradient computes again in the same blocks."""

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
        """Return the gradient: each term's share in its log sum."""
        first, second, rows, columns = ctx.saved_tensors
        of_rows, of_columns = (gradient.unsqueeze(dim) for gradient, dim in zip(gradients, (-1, -2), strict=True))
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
    """Return rows of the similarities (P, block, M)."""
    found = first[:, begin : begin + block] @ second.mT
    if others:
        found.diagonal(begin, 1, 2).fill_(-torch.inf)
    return found
