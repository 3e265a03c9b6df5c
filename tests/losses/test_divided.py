"""Losses whose similarities are divided among ranks, which are threads here; ``test_ranks.py`` has real ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from clocs.losses import CPCLoss, InfoNCELoss, PatientNCELoss, cosine
from clocs.losses.cosine import divided_among_ranks

INSTANCES, SIZE = 11, 6
PATIENTS = torch.arange(INSTANCES) // 2


class Ranks:
    """Collective calls of ``torch.distributed`` among threads, and the rows of similarities that each has computed."""

    def __init__(self, count: int) -> None:
        self.count, self.rows = count, [0] * count
        self._barrier, self._values = threading.Barrier(count), [torch.empty(0)] * count
        self._own = threading.local()

    def get_rank(self) -> int:
        rank: int = self._own.rank
        return rank

    def get_world_size(self) -> int:
        return self.count

    def all_gather(self, parts: list[Tensor], values: Tensor) -> None:
        self._values[self.get_rank()] = values.clone()
        self._barrier.wait()
        for part, value in zip(parts, self._values, strict=True):
            part.copy_(value)
        self._barrier.wait()

    def all_reduce(self, values: Tensor) -> None:
        parts = [torch.empty_like(values) for _ in range(self.count)]
        self.all_gather(parts, values)
        values.copy_(torch.stack(parts).sum(0))

    def run(self, rank: int, loss: Callable[[Tensor], Tensor], values: Tensor) -> tuple[Tensor, Tensor]:
        self._own.rank = rank
        with divided_among_ranks():
            return result(loss, values)


def result(loss: Callable[[Tensor], Tensor], values: Tensor) -> tuple[Tensor, Tensor]:
    """Return a loss and its gradient."""
    given = values.clone().requires_grad_()
    found = loss(given)
    found.backward()  # type: ignore[no-untyped-call]
    assert given.grad is not None
    return found.detach(), given.grad


def predictions(values: Tensor) -> Tensor:
    """Return the loss of CPC, where the first half of the features predict the second half."""
    targets = torch.tensor([1, 0]).expand(INSTANCES, -1).unsqueeze(2)
    found: Tensor = CPCLoss(negatives="all")(values.flip(0).unsqueeze(2), values, targets)
    return found


@pytest.mark.parametrize(
    "loss",
    [
        lambda values: PatientNCELoss(block=3)(values, PATIENTS),
        lambda values: PatientNCELoss(off_diagonals="one_triangle")(values, PATIENTS),
        InfoNCELoss(),
        InfoNCELoss(form="nt_xent"),
        predictions,
    ],
    ids=["patient_nce", "one_triangle", "info_nce", "nt_xent", "cpc"],
)
@pytest.mark.parametrize("count", [2, 3])
def test_each_rank_computes_its_part_of_the_same_loss(
    count: int, loss: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = torch.randn(INSTANCES, 2, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected, gradient = result(loss, values)
    ranks, similarities = Ranks(count), cosine._similarities

    def counted(first: Tensor, second: Tensor, rows: slice, exclude_diagonal: bool) -> Tensor:
        found = similarities(first, second, rows, exclude_diagonal)
        ranks.rows[ranks.get_rank()] += found.shape[1]
        return found

    monkeypatch.setattr(cosine, "dist", ranks)
    monkeypatch.setattr(cosine, "_similarities", counted)
    with ThreadPoolExecutor(count) as threads:
        found = list(threads.map(lambda rank: ranks.run(rank, loss, values), range(count)))
    for value, own_gradient in found:
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(own_gradient, gradient, rtol=0, atol=1e-12)
    assert max(ranks.rows) < 1.4 * sum(ranks.rows) / count
