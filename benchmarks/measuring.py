"""Measurement and output of benchmarks."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CLOCS_DATA", ROOT.parent / "shared" / "data"))


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a folder and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="clocs-bench-", dir=os.environ.get("CLOCS_SCRATCH")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line(name: str, value: float, limit: float, *, at_least: bool = True, unit: str = "") -> None:
    """Print one result with its limit."""
    reached = value >= limit if at_least else value <= limit
    bound = "floor" if at_least else "ceiling"
    print(f"{name:<44} {value:>12.3f} {unit:<10} {bound} {limit:g}  {'ok' if reached else 'NOT REACHED'}", flush=True)


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


def in_child(script: str, *arguments: object) -> Any:
    """Run a script in a new process, and return the JSON in its last line of output."""
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def watched(prepare: str, work: str) -> str:
    """Return a script that prints the peak memory, in bytes, of any worker process during ``work``.

    Both statements know ``some``, the first recordings of Chapman, ``source`` and ``folder``.
    """
    return f"""
import itertools, json, sys, threading, time
from dataclasses import replace
import psutil, clocs
count, source, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
chapman = clocs.DATASETS.get("chapman")
some = replace(chapman, entries=lambda *given: itertools.islice(chapman.entries(*given), count))
{prepare}
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.is_set():
        for child in psutil.Process().children(recursive=True):
            try:
                if "loky" in " ".join(child.cmdline()):
                    peak = max(peak, child.memory_info().rss - child.memory_info().shared)
            except psutil.Error:
                pass
        time.sleep(0.01)
thread = threading.Thread(target=watch); thread.start()
{work}
done.set(); thread.join()
print(json.dumps(peak))
"""
