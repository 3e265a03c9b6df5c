from __future__ import annotations

import threading

import pytest

from clocs.training.prefetch import Prefetcher


def test_the_next_batch_is_prepared_in_advance() -> None:
    made = {number: threading.Event() for number in range(4)}

    def make(number: int) -> str:
        made[number].set()
        return f"made {number}"

    batches = Prefetcher(make, end=3)
    assert batches.get(0) == "made 0"
    assert made[1].wait(10)
    assert batches.get(2) == "made 2"  # another than the one begun
    assert batches.get(1) == "made 1"
    assert batches.get(2) == "made 2"
    batches.close()
    assert not made[3].is_set()


def test_an_error_is_raised_when_the_batch_is_requested() -> None:
    def make(number: int) -> int:
        if number == 1:
            raise ValueError("broken shard")
        return number

    batches = Prefetcher(make, end=9)
    assert batches.get(0) == 0
    with pytest.raises(ValueError, match="broken shard"):
        batches.get(1)
    batches.close()
