"""One ``map`` over idempotent tasks: in this process, in local processes, or on a Ray cluster.

It retries what died; it never schedules. Tasks are taken from their iterator as workers become free,
so any number of them needs the same memory.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar

from clocs.core.errors import ClocsError, EngineError, MissingExtraError

Engine = Literal["serial", "processes", "ray"]
Task = TypeVar("Task")
Result = TypeVar("Result")

RAY_STARTS = 3
"""Starting Ray on a loaded machine sometimes fails; it is tried this often."""
PARENT_WATCH_SECONDS = 0.2


def run(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    engine: Engine = "serial",
    workers: int = 1,
    retries: int = 2,
) -> Iterator[tuple[int, Result]]:
    """Yield (task number, result) as tasks finish, in any order.

    A task that dies (killed worker, unexpected error) runs again up to ``retries`` times; an error of
    clocs' own is the task's answer and is raised at once.
    """
    if workers < 1:
        raise EngineError(f"workers must be at least 1, not {workers}")
    numbered = enumerate(tasks)
    if engine == "serial":
        yield from _serial(function, numbered, retries)
    elif engine == "processes":
        yield from _processes(function, numbered, workers, retries)
    elif engine == "ray":
        yield from _ray(function, numbered, workers, retries)
    else:
        raise EngineError(f"unknown engine '{engine}'; choose serial, processes or ray")


def _serial(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], retries: int
) -> Iterator[tuple[int, Result]]:
    for number, task in tasks:
        for attempt in range(retries + 1):
            try:
                result = function(task)
                break
            except ClocsError:
                raise
            except Exception as error:
                _give_up_after(retries, attempt, number, error)
        yield number, result


def _processes(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], workers: int, retries: int
) -> Iterator[tuple[int, Result]]:
    """loky rather than the standard library's pool: a script needs no ``__main__`` guard for it."""
    from concurrent.futures import FIRST_COMPLETED, wait

    from joblib.externals.loky import ProcessPoolExecutor

    def start() -> Any:
        return ProcessPoolExecutor(max_workers=workers, initializer=_end_with, initargs=(os.getpid(),))

    def again(number: int, task: Task, error: BaseException) -> None:
        _give_up_after(retries, attempts.setdefault(number, 0), number, error)
        attempts[number] += 1
        waiting.append((number, task))

    attempts: dict[int, int] = {}
    waiting: list[tuple[int, Task]] = []
    pool = start()
    running: dict[Any, tuple[int, Task]] = {}
    try:
        while True:
            broken = False
            while len(running) < 2 * workers and (following := waiting.pop() if waiting else next(tasks, None)):
                try:
                    running[pool.submit(function, following[1])] = following
                except RuntimeError as failure:  # a worker died after its last answer
                    again(*following, failure)
                    broken = True
                    break
            if not running and not broken:
                return
            for future in [] if broken else wait(running, return_when=FIRST_COMPLETED).done:
                number, task = running.pop(future)
                error = future.exception()
                if error is None:
                    yield number, future.result()
                    continue
                if isinstance(error, ClocsError):
                    raise error
                broken = broken or isinstance(error, OSError | RuntimeError)
                again(number, task, error)
            if broken:  # one dead worker fails every task of its pool
                waiting.extend(running.values())
                running.clear()
                pool.shutdown(wait=False, kill_workers=True)
                pool = start()
    finally:
        pool.shutdown(wait=not running, kill_workers=bool(running))


def _end_with(parent: int) -> None:
    """Make this worker end when a killed run leaves it behind: it would write on, and then wait for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ray(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], workers: int, retries: int
) -> Iterator[tuple[int, Result]]:
    ray = _start_ray(workers)
    remote = ray.remote(max_retries=retries, retry_exceptions=False)(function)
    running: dict[Any, int] = {}
    while True:
        while len(running) < 2 * workers and (following := next(tasks, None)):
            running[remote.remote(following[1])] = following[0]
        if not running:
            return
        done, _ = ray.wait(list(running), num_returns=1)
        number = running.pop(done[0])
        try:
            yield number, ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, ClocsError) else EngineError(f"task {number} failed: {cause!r}") from error
        except ray.exceptions.RayError as error:
            raise EngineError(f"task {number} failed {retries + 1} times: {error}") from error


def _start_ray(workers: int) -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "the Ray engine") from None
    for start in range(RAY_STARTS):
        if ray.is_initialized():
            break
        try:  # joins a running cluster when RAY_ADDRESS names one, else starts one here
            local: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False}
            there = {} if os.environ.get("RAY_ADDRESS") else local
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **there)
        except Exception as error:
            ray.shutdown()
            if start + 1 == RAY_STARTS:
                raise EngineError(f"Ray did not start in {RAY_STARTS} tries: {error}") from error
    return ray


def _give_up_after(retries: int, attempt: int, number: int, error: BaseException) -> None:
    if attempt >= retries:
        raise EngineError(f"task {number} failed {attempt + 1} times, last with {error!r}") from error
