"""Run idempotent tasks in this process, in local processes, or on a Ray cluster, and retry failed ones.

Tasks are taken from their iterator as workers become free, so memory use does not depend on the number of tasks.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar

from clocs.core.errors import ClocsError, EngineError, MissingExtraError

Engine = Literal["serial", "processes", "ray"]
Task = TypeVar("Task")
Result = TypeVar("Result")

RAY_STARTS = 3
"""Number of attempts to start Ray, because a start sometimes fails on a busy machine."""
PARENT_WATCH_SECONDS = 0.2
"""Interval in which a worker process checks whether its parent still runs."""
CARRIED_SETTINGS: Final = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "CLOCS_SKIP_CHECKSUMS",
)
"""Environment variables that tasks carry to the nodes of a cluster. Credentials, certificates and the folder of local
copies are those of each node."""


def run(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    engine: Engine = "serial",
    workers: int = 1,
    retries: int = 2,
) -> Iterator[tuple[int, Result]]:
    """Run a function on all tasks and yield results as tasks finish, in any order.

    Args:
        function: Function of one task. It must be idempotent and, except for "serial", picklable.
        tasks: The tasks. Only a few are taken ahead of the workers.
        engine: "serial" (this process), "processes" (local processes) or "ray" (a Ray cluster).
        workers: Number of worker processes.
        retries: Number of times to run a task again after a killed worker or an unexpected error.

    Yields:
        Index of the task and its result.

    Raises:
        EngineError: A task failed after all retries, or the engine cannot start.
        ClocsError: A task raised it. Errors of clocs are not retried.
    """
    if workers < 1:
        raise EngineError(f"Expected workers of at least 1, got {workers}.")
    indexed = enumerate(tasks)
    if engine == "serial":
        yield from _serial(function, indexed, retries)
    elif engine == "processes":
        yield from _processes(function, indexed, workers, retries)
    elif engine == "ray":
        yield from _ray(function, indexed, workers, retries)
    else:
        raise EngineError(f"Unknown engine '{engine}'. Choose serial, processes or ray.")


def _serial(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], retries: int
) -> Iterator[tuple[int, Result]]:
    for index, task in tasks:
        for attempt in range(retries + 1):
            try:
                result = function(task)
                break
            except ClocsError:
                raise
            except Exception as error:
                _raise_after(retries, attempt, index, error)
        yield index, result


def _processes(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], workers: int, retries: int
) -> Iterator[tuple[int, Result]]:
    """Run tasks with loky. Unlike the standard library's pool, it needs no ``__main__`` guard in scripts."""
    from concurrent.futures import FIRST_COMPLETED, wait

    from joblib.externals.loky import ProcessPoolExecutor

    def start() -> Any:
        return ProcessPoolExecutor(max_workers=workers, initializer=exit_with_parent, initargs=(os.getpid(),))

    def retry(index: int, task: Task, error: BaseException) -> None:
        _raise_after(retries, attempts.setdefault(index, 0), index, error)
        attempts[index] += 1
        pending.append((index, task))

    attempts: dict[int, int] = {}
    pending: list[tuple[int, Task]] = []
    pool = start()
    running: dict[Any, tuple[int, Task]] = {}
    try:
        while True:
            broken = False
            while len(running) < 2 * workers and (next_task := pending.pop() if pending else next(tasks, None)):
                try:
                    running[pool.submit(function, next_task[1])] = next_task
                except RuntimeError as failure:  # a worker died after its last result
                    retry(*next_task, failure)
                    broken = True
                    break
            if not running and not broken:
                return
            for future in [] if broken else wait(running, return_when=FIRST_COMPLETED).done:
                index, task = running.pop(future)
                error = future.exception()
                if error is None:
                    yield index, future.result()
                    continue
                if isinstance(error, ClocsError):
                    raise error
                broken = broken or isinstance(error, OSError | RuntimeError)
                retry(index, task, error)
            if broken:  # a dead worker fails all tasks of its pool
                pending.extend(running.values())
                running.clear()
                pool.shutdown(wait=False, kill_workers=True)
                pool = start()
    finally:
        pool.shutdown(wait=not running, kill_workers=bool(running))


def exit_with_parent(parent: int) -> None:
    """End this worker when its parent process ends. Otherwise it would continue to write and then wait forever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ray(
    function: Callable[[Task], Result], tasks: Iterator[tuple[int, Task]], workers: int, retries: int
) -> Iterator[tuple[int, Result]]:
    ray = _start_ray(workers)
    settings = {name: os.environ[name] for name in CARRIED_SETTINGS if name in os.environ}
    remote = ray.remote(max_retries=retries, retry_exceptions=False)(_run_with).options(name="run_task")
    running: dict[Any, int] = {}
    while True:
        while len(running) < 2 * workers and (next_task := next(tasks, None)):
            running[remote.remote(settings, function, next_task[1])] = next_task[0]
        if not running:
            return
        done, _ = ray.wait(list(running), num_returns=1)
        index = running.pop(done[0])
        try:
            yield index, ray.get(done[0])
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ray.exceptions.RaySystemError):  # a task that the node could not unpickle
                cause = cause.client_exc
            raise cause if isinstance(cause, ClocsError) else EngineError(f"Task {index} failed: {cause!r}") from error
        except ray.exceptions.RayError as error:
            raise EngineError(f"Task {index} failed {retries + 1} times: {error}") from error


def _run_with(settings: dict[str, str], function: Callable[[Task], Result], task: Task) -> Result:
    """Run a task with environment variables of the process that sent it."""
    os.environ.update(settings)
    return function(task)


def _start_ray(workers: int) -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "the Ray engine") from None
    for start in range(RAY_STARTS):
        if ray.is_initialized():
            break
        try:  # connect to the cluster at RAY_ADDRESS if it is set, otherwise start a local one
            local: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False}
            options = {} if os.environ.get("RAY_ADDRESS") else local
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **options)
        except Exception as error:
            ray.shutdown()
            if start + 1 == RAY_STARTS:
                raise EngineError(f"Ray did not start in {RAY_STARTS} attempts: {error}") from error
    return ray


def _raise_after(retries: int, attempt: int, index: int, error: BaseException) -> None:
    if attempt >= retries:
        raise EngineError(f"Task {index} failed {attempt + 1} times, last with {error!r}") from error
