from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pytest

from clocs.training.prefetch import Prefetcher


@pytest.fixture
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


def test_the_next_batch_is_prepared_in_advance(pool: ThreadPoolExecutor) -> None:
    made = {number: threading.Event() for number in range(4)}

    def make(number: int) -> str:
        made[number].set()
        return f"made {number}"

    batches = Prefetcher(lambda number: pool.submit(make, number), end=3)
    assert batches.get(0) == "made 0"
    assert made[1].wait(10)
    assert batches.get(2) == "made 2"  # another than the one begun
    assert batches.get(1) == "made 1"
    assert batches.get(2) == "made 2"
    batches.close()
    assert not made[3].is_set()


def test_work_is_started_as_far_ahead_as_asked() -> None:
    started: list[int] = []

    def submit(number: int) -> Future[int]:
        started.append(number)
        future: Future[int] = Future()
        future.set_result(number)
        return future

    with closing(Prefetcher(submit, end=6, ahead=3)) as batches:
        assert batches.get(0) == 0
        assert started == [0, 1, 2, 3]
        assert [batches.get(number) for number in range(1, 6)] == [1, 2, 3, 4, 5]
    assert started == [0, 1, 2, 3, 4, 5]


def test_an_error_is_raised_when_the_batch_is_requested(pool: ThreadPoolExecutor) -> None:
    def make(number: int) -> int:
        if number == 1:
            raise ValueError("broken shard")
        return number

    batches = Prefetcher(lambda number: pool.submit(make, number), end=9)
    assert batches.get(0) == 0
    with pytest.raises(ValueError, match="broken shard"):
        batches.get(1)
    batches.close()
