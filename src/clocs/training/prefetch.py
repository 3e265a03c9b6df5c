"""Preparation of the next batch while the current one trains."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Calls of ``make(number)`` for consecutive numbers, the next one in a thread while the caller works.

    The result of ``make`` depends only on the number. One thread is enough, because making a batch takes a tenth of
    the time of training on it.

    Args:
        make: Function of a number.
        end: The first number that is not needed.
    """

    def __init__(self, make: Callable[[int], Made], end: int) -> None:
        self._make, self._end = make, end
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="clocs-prefetch")
        self._next: tuple[int, Future[Made]] | None = None

    def get(self, number: int) -> Made:
        """Return ``make(number)``. Errors of ``make`` are raised here."""
        started, self._next = self._next, None
        future = started[1] if started is not None and started[0] == number else self._pool.submit(self._make, number)
        made = future.result()
        if number + 1 < self._end:
            self._next = number + 1, self._pool.submit(self._make, number + 1)
        return made

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(cancel_futures=True)
