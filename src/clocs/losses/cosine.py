"""Log-sum-exp of cosine similarities, computed in blocks to limit memory."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from clocs.losses.full_precision import full_precision

MAX_BLOCK_BYTES: Final = 16 * 2**20
"""Bytes of similarities in memory. More are computed block by block, and again for the gradient."""


def units(vectors: Tensor) -> Tensor:
    """Scale vectors (..., E) to length 1, in float32 at least.

    They are divided by their largest element first, because squares of large elements overflow. A zero vector stays
    zero and has no gradient.
    """
    vectors = full_precision(vectors)
    largest = vectors.detach().abs().amax(-1, keepdim=True)
    return normalize(vectors / largest.masked_fill(largest < 1e-12, torch.inf), dim=-1)


def log_sums(
    first: Tensor, second: Tensor, temperature: float, *, block: int | None = None, exclude_diagonal: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute log sum exp of ``first @ second.T / temperature`` along rows and along columns.

    Args:
        first: (P, N, E): the left factors of P products.
        second: (P, M, E): the right factors.
        temperature: Divisor of the products.
        block: Rows of all products per block; None for as many as ``MAX_BLOCK_BYTES`` holds.
        exclude_diagonal: Whether to leave out the diagonal.

    Returns:
        The sums along rows (P, N) and along columns (P, M).
    """
    if block is None:
        block = max(1, MAX_BLOCK_BYTES // (len(first) * second.shape[1] * second.element_size()))
    sums: tuple[Tensor, Tensor] = _LogSums.apply(  # type: ignore[no-untyped-call]
        first / temperature, second, block, exclude_diagonal
    )
    return sums


class _LogSums(torch.autograd.Function):
    """Differentiable log-sum-exp that stores the sums only. The gradient computes the similarities again."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, block: int, exclude_diagonal: bool) -> tuple[Tensor, Tensor]:
        rows = []
        columns = second.new_full(second.shape[:-1], -torch.inf)
        for begin in range(0, first.shape[1], block):
            similarities = _similarities(first, second, begin, block, exclude_diagonal)
            rows.append(similarities.logsumexp(-1))
            columns = torch.logaddexp(columns, similarities.logsumexp(-2))
        sums = torch.cat(rows, 1), columns
        ctx.save_for_backward(first, second, *sums)
        ctx.block, ctx.exclude_diagonal = block, exclude_diagonal
        return sums

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients: the softmax weights, times the incoming gradients."""
        first, second, rows, columns = ctx.saved_tensors
        row_gradients, column_gradients = (
            gradient.unsqueeze(dim) for gradient, dim in zip(gradients, (-1, -2), strict=True)
        )
        rows, columns = rows.unsqueeze(-1), columns.unsqueeze(-2)
        first_gradient, second_gradient = torch.empty_like(first), torch.zeros_like(second)
        for begin in range(0, first.shape[1], ctx.block):
            part = slice(begin, begin + ctx.block)
            similarities = _similarities(first, second, begin, ctx.block, ctx.exclude_diagonal)
            weights = (similarities - rows[:, part]).exp_().mul_(row_gradients[:, part])
            weights += similarities.sub_(columns).exp_().mul_(column_gradients)
            first_gradient[:, part] = weights @ second
            second_gradient.baddbmm_(weights.mT, first[:, part])
        return first_gradient, second_gradient, None, None


def _similarities(first: Tensor, second: Tensor, begin: int, block: int, exclude_diagonal: bool) -> Tensor:
    """Return a block of rows of the similarities (P, block, M)."""
    similarities = first[:, begin : begin + block] @ second.mT
    if exclude_diagonal:
        similarities.diagonal(begin, 1, 2).fill_(-torch.inf)
    return similarities
