"""The engine runs every task once, takes few tasks ahead, and retries failures. Ray has a test of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from clocs.core.engine import Engine, run
from clocs.core.errors import EngineError, FormatError, MissingExtraError

LOCAL: tuple[Engine, ...] = ("serial", "processes")


def square(number: int) -> int:
    return number * number


def own_process(_: int) -> int:
    return os.getpid()


def reject_three(number: int) -> int:
    if number == 3:
        raise FormatError("record 3: broken")
    return number


def needs_extra(_: int) -> int:
    raise MissingExtraError("ray", "this task")


def attempt(folder: Path) -> int:
    """Count the calls for a folder in files, which survive a killed process."""
    count = len(os.listdir(folder))
    (folder / f"attempt-{count}").touch()
    return count


def dies_once(task: tuple[int, Path]) -> int:
    number, folder = task
    if number == 5 and attempt(folder) == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def always_dies(folder: Path) -> int:
    attempt(folder)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def fails_twice(task: tuple[int, Path]) -> int:
    number, folder = task
    if number == 1 and attempt(folder) < 2:
        raise ZeroDivisionError("transient")
    return number


def always_fails(task: tuple[int, Path]) -> int:
    number, folder = task
    if number == 1:
        attempt(folder)
        raise KeyError("permanent")
    return number


@pytest.mark.parametrize(("engine", "workers"), [("serial", 1), ("processes", 3)])
def test_every_task_gives_its_result_exactly_once(engine: Engine, workers: int) -> None:
    found = list(run(square, range(100), engine=engine, workers=workers))
    assert len(found) == 100
    assert dict(found) == {number: number * number for number in range(100)}


@pytest.mark.parametrize("engine", LOCAL)
def test_no_tasks_give_no_results(engine: Engine) -> None:
    assert list(run(square, [], engine=engine)) == []


def test_tasks_run_in_at_most_the_requested_number_of_processes() -> None:
    pids = {pid for _, pid in run(own_process, range(12), engine="processes", workers=2)}
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


@pytest.mark.parametrize(("engine", "workers"), [("serial", 1), ("processes", 2)])
def test_tasks_are_taken_only_as_workers_become_free(engine: Engine, workers: int) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = run(square, endless(), engine=engine, workers=workers)
    for done, _ in enumerate(results, start=1):
        assert taken <= done + 2 * workers
        if done == 30:
            break
    cast("Iterator[object]", results).close()  # type: ignore[attr-defined]
    assert taken <= 30 + 2 * workers


@pytest.mark.parametrize("engine", LOCAL)
def test_an_error_of_clocs_is_raised_without_a_retry(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="record 3: broken"):
        list(run(reject_three, range(10), engine=engine))


@pytest.mark.parametrize("engine", LOCAL)
def test_a_missing_extra_is_raised_unchanged(engine: Engine) -> None:
    with pytest.raises(MissingExtraError, match="this task needs the extra 'ray'"):
        list(run(needs_extra, [0], engine=engine))


def test_a_killed_worker_is_replaced_and_its_task_done(tmp_path: Path) -> None:
    tasks = [(number, tmp_path) for number in range(20)]
    found = list(run(dies_once, tasks, engine="processes", workers=2))
    assert sorted(found) == [(number, number * number) for number in range(20)]
    assert len(os.listdir(tmp_path)) == 2


def test_a_task_that_always_kills_its_worker_fails_after_the_retries(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="Task 0 failed 2 times"):
        list(run(always_dies, [tmp_path], engine="processes", retries=1))
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("engine", LOCAL)
def test_an_unexpected_error_is_retried(engine: Engine, tmp_path: Path) -> None:
    tasks = [(number, tmp_path) for number in range(4)]
    assert sorted(run(fails_twice, tasks, engine=engine, retries=2)) == [(number, number) for number in range(4)]
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize(("engine", "retries"), [("serial", 0), ("serial", 2), ("processes", 1)])
def test_a_failing_task_raises_its_last_error_after_the_retries(engine: Engine, retries: int, tmp_path: Path) -> None:
    tasks = [(number, tmp_path) for number in range(3)]
    with pytest.raises(EngineError, match=rf"Task 1 failed {retries + 1} times, last with KeyError") as raised:
        list(run(always_fails, tasks, engine=engine, retries=retries))
    assert isinstance(raised.value.__cause__, KeyError)
    assert len(os.listdir(tmp_path)) == retries + 1


def test_zero_workers_and_unknown_engines_are_rejected() -> None:
    with pytest.raises(EngineError, match="at least 1, got 0"):
        list(run(square, [1], workers=0))
    with pytest.raises(EngineError, match="Choose serial, processes or ray"):
        list(run(square, [1], engine=cast(Engine, "threads")))
