"""Measurement and output of benchmarks."""

from __future__ import annotations

import gc
import inspect
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CLOCS_DATA", ROOT.parent / "shared" / "data"))
_Way = TypeVar("_Way")
_CHILD = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
work = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
print(json.dumps(work(*json.loads(sys.argv[4]))))
"""


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a folder and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="clocs-bench-", dir=os.environ.get("CLOCS_SCRATCH")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line(
    name: str, values: float | Sequence[float], limit: float, *, at_least: bool = True, unit: str = "", digits: int = 3
) -> None:
    """Print one result with its limit; of several values the median, which is judged, and the quartiles."""
    several = [values] if isinstance(values, float | int) else values
    middle = statistics.median(several)
    reached = middle >= limit if at_least else middle <= limit
    bound = "floor" if at_least else "ceiling"
    spread = ""
    if len(several) > 1:
        low, _, high = statistics.quantiles(several, n=4, method="inclusive")
        spread = f"({low:.{digits}f} to {high:.{digits}f})"
    print(
        f"{name:<50} {middle:>10.{digits}f} {unit:<9} {spread:<20} {bound} {limit:g}  "
        f"{'ok' if reached else 'NOT REACHED'}",
        flush=True,
    )


def seconds(work: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a call, which depends less on other work on the machine."""
    before = time.process_time()
    work()
    return time.process_time() - before


def child_processor_seconds(command: Sequence[str]) -> float:
    """Return the processor time of a command in a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(ways: Mapping[str, _Way], rounds: int, clock: Callable[[_Way], float]) -> dict[str, list[float]]:
    """Return the seconds of each way in each round. All ways are used once before, and then take turns."""
    for way in ways.values():
        clock(way)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(clock(way))
    return taken


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the ratio of each round, so that what slows a round down slows down both."""
    return [one / other for one, other in zip(numerators, denominators, strict=True)]


def in_child(work: Callable[..., Any], *arguments: object) -> Any:
    """Call a function of a benchmark in a new process; arguments and result are JSON, and paths become text."""
    file = Path(inspect.getfile(work))
    told = json.dumps(arguments, default=os.fspath)
    command = [sys.executable, "-c", _CHILD, str(file.parent), file.stem, work.__name__, told]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def memory_of_this_process(field: str) -> float:
    """Return a line of the process's status in MB: ``VmHWM``, the peak, ``VmRSS`` or ``RssAnon``.

    A new process inherits the peak that getrusage tells from its parent, but not this one.
    """
    with open("/proc/self/status") as status:
        return next(int(text.split()[1]) for text in status if text.startswith(field)) / 1024


@contextmanager
def peak_memory(of: Callable[[], float]) -> Iterator[list[float]]:
    """Observe a value during the block; the list has its highest."""
    peak, done = [of()], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], of())

    gc.collect()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def worker_memory_growth(title: str, work: Callable[[int, str], float], counts: tuple[int, int]) -> None:
    """Print the peak memory of a worker, which a function returns for a number of recordings and an empty folder."""
    with scratch() as folder:
        small, large = (in_child(work, count, folder / str(count)) for count in counts)
    print(f"  a worker's peak: {small:.0f} MB at {counts[0]:,}, {large:.0f} MB at {counts[1]:,} recordings")
    line(f"{title}, {counts[1]:,} / {counts[0]:,} recordings", large / small, 1.1, at_least=False, unit="x")


def memory_of_workers() -> float:
    """Return the own memory in MB of the largest worker process."""
    largest = 0
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "loky" in " ".join(child.cmdline()):
                memory = child.memory_info()
                largest = max(largest, memory.rss - memory.shared)
    return largest / 2**20
