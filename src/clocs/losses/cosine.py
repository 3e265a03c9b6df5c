"""Log-sum-exp of cosine similarities, computed in blocks to limit memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

import torch
import torch.distributed as dist
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


@contextlib.contextmanager
def divided_among_ranks() -> Iterator[None]:
    """Let each rank compute the similarities of its part of the rows, in a context in which all have the same input.

    The sums, and their gradients, are then exchanged. They equal those of one rank but for rounding.
    """
    before, _division.ranks = _division.ranks, (dist.get_rank(), dist.get_world_size())
    try:
        yield
    finally:
        _division.ranks = before


class _Division(threading.local):
    """Division of the rows in this thread."""

    ranks = (0, 1)
    """This rank, and the number of ranks."""


_division = _Division()


class _LogSums(torch.autograd.Function):
    """Differentiable log-sum-exp that stores the sums only. The gradient computes the similarities again."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, block: int, exclude_diagonal: bool) -> tuple[Tensor, Tensor]:
        (rank, ctx.num_ranks), count = _division.ranks, first.shape[1]
        begin, end = count * rank // ctx.num_ranks, count * (rank + 1) // ctx.num_ranks
        ctx.parts = [slice(start, min(start + block, end)) for start in range(begin, end, block)]
        rows = first.new_zeros(first.shape[:-1])
        columns = second.new_full(second.shape[:-1], -torch.inf)
        for part in ctx.parts:
            similarities = _similarities(first, second, part, exclude_diagonal)
            rows[:, part] = similarities.logsumexp(-1)
            columns = torch.logaddexp(columns, similarities.logsumexp(-2))
        if ctx.num_ranks > 1:
            dist.all_reduce(rows)
            columns_of_ranks = [torch.empty_like(columns) for _ in range(ctx.num_ranks)]
            dist.all_gather(columns_of_ranks, columns)
            columns = torch.stack(columns_of_ranks).logsumexp(0)
        ctx.save_for_backward(first, second, rows, columns)
        ctx.exclude_diagonal = exclude_diagonal
        return rows, columns

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients: the softmax weights, times the incoming gradients."""
        first, second, rows, columns = ctx.saved_tensors
        row_gradients, column_gradients = (
            gradient.unsqueeze(dim) for gradient, dim in zip(gradients, (-1, -2), strict=True)
        )
        rows, columns = rows.unsqueeze(-1), columns.unsqueeze(-2)
        first_gradient, second_gradient = _zeros(first), _zeros(second)
        for part in ctx.parts:
            similarities = _similarities(first, second, part, ctx.exclude_diagonal)
            weights = (similarities - rows[:, part]).exp_().mul_(row_gradients[:, part])
            weights += similarities.sub_(columns).exp_().mul_(column_gradients)
            first_gradient[:, part] = weights @ second
            second_gradient.baddbmm_(weights.mT, first[:, part])
        if ctx.num_ranks > 1:
            dist.all_reduce(first_gradient)
            dist.all_reduce(second_gradient)
        return first_gradient, second_gradient, None, None


def _zeros(values: Tensor) -> Tensor:
    return torch.zeros_like(values, memory_format=torch.contiguous_format)


def _similarities(first: Tensor, second: Tensor, rows: slice, exclude_diagonal: bool) -> Tensor:
    """Return some rows of the similarities (P, rows, M)."""
    similarities = first[:, rows] @ second.mT
    if exclude_diagonal:
        similarities.diagonal(rows.start, 1, 2).fill_(-torch.inf)
    return similarities
