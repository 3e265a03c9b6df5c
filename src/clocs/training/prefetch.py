"""Make the next batch while the present one trains."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Calls ``make(number)`` for one number after the other, the next one in a thread while the caller works.

    ``make`` depends on the number alone. One thread is enough: making a batch takes a tenth of training on it.

    Args:
        make: Makes what belongs to a number.
        end: The first number that is not made.
    """

    def __init__(self, make: Callable[[int], Made], end: int) -> None:
        self._make, self._end = make, end
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="clocs-prefetch")
        self._next: tuple[int, Future[Made]] | None = None

    def get(self, number: int) -> Made:
        """Return what belongs to a number; an error in making it is raised here."""
        begun, self._next = self._next, None
        future = begun[1] if begun is not None and begun[0] == number else self._pool.submit(self._make, number)
        made = future.result()
        if number + 1 < self._end:
            self._next = number + 1, self._pool.submit(self._make, number + 1)
        return made

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(cancel_futures=True)
