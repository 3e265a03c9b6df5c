"""Preparation of the next batches while the current one trains, in a thread or in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from clocs.core.engine import exit_with_parent
from clocs.methods import Batch

if TYPE_CHECKING:
    from clocs.training.batches import BatchSource

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Results of ``submit(number)`` for consecutive numbers, the next ones while the caller works.

    A result depends only on its number.

    Args:
        submit: Function that starts the work on a number.
        end: The first number that is not needed.
        ahead: How many numbers are worked on ahead of the caller.
    """

    def __init__(self, submit: Callable[[int], Future[Made]], end: int, ahead: int = 1) -> None:
        self._submit, self._end, self._ahead = submit, end, ahead
        self._started: dict[int, Future[Made]] = {}

    def get(self, number: int) -> Made:
        """Return the result of a number. Errors of the work are raised here."""
        needed = range(number, min(number + self._ahead + 1, self._end))
        for old in self._started.keys() - set(needed):
            self._started.pop(old).cancel()
        for each in needed:
            if each not in self._started:
                self._started[each] = self._submit(each)
        return self._started.pop(number).result()

    def close(self) -> None:
        """Cancel what was not begun, and wait for the rest."""
        for future in self._started.values():
            if not future.cancel():
                future.exception()
        self._started.clear()


@contextmanager
def prefetch_in_thread(make: Callable[[int], Made], end: int) -> Iterator[Prefetcher[Made]]:
    """Prepare the results of ``make(number)`` for consecutive numbers, the next one in a thread.

    One thread is enough on a CPU, because making a batch takes a tenth of the time of training on it.

    Args:
        make: Function that makes the result of a number.
        end: The first number that is not needed.
    """
    with (
        ThreadPoolExecutor(1, thread_name_prefix="clocs-prefetch") as pool,
        closing(Prefetcher(lambda number: pool.submit(make, number), end)) as results,
    ):
        yield results


class BatchWorkers:
    """Processes that make batches. Each gets the data once.

    Args:
        batches: The data.
        count: Number of processes.
    """

    def __init__(self, batches: BatchSource, count: int) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        settings = (batches, torch.get_default_dtype(), os.getpid())
        self._pool = ProcessPoolExecutor(max_workers=count, initializer=_keep, initargs=settings)

    def submit(self, *arguments: Any) -> Future[Batch]:
        """Start a batch; the arguments are those of ``make``."""
        future: Future[Batch] = self._pool.submit(_make, *arguments)
        return future

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=True, kill_workers=True)


_kept: list[BatchSource] = []


def _keep(batches: BatchSource, dtype: torch.dtype, parent: int) -> None:
    """Keep the data in a worker process, which uses one thread."""
    exit_with_parent(parent)
    torch.set_num_threads(1)
    torch.set_default_dtype(dtype)
    _kept[:] = [batches]


def _make(*arguments: Any) -> Batch:
    return _kept[0].make(*arguments)
