"""Benchmark of checksums on use: gathers and training steps after the first epoch, and the first read."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from measuring import in_child, line, scratch, seconds
from training import chapman_loop, run_steps

import clocs
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.reader import SKIP_CHECKSUMS

BATCH, ROUNDS = 256, 60
POLICY = FramePolicy(num_samples=2500, sampling_rate=500, leads=("II", "V2", "aVL", "aVR"))
_FIRST_READ = """
import json, os, sys, time
import numpy as np, clocs
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
workers, check = int(sys.argv[2]), sys.argv[3] == "check"
store = clocs.open_store(sys.argv[1], check=check)
frames = Frames(store, FramePolicy(samples=2500, rate=500, leads=("II", "V2", "aVL", "aVR")))
parts = np.array_split(np.arange(len(frames)), workers)
def read(part):
    for begin in range(0, len(part), 256):
        frames.gather(part[begin : begin + 256])
before = time.perf_counter()
children = []
for part in parts:
    child = os.fork()
    if not child:
        read(part)
        os._exit(0)
    children.append(child)
assert not any(os.waitpid(child, 0)[1] for child in children)
print(json.dumps(time.perf_counter() - before))
"""


def checksum_cost() -> None:
    """Compare a store that is checked with the same store unchecked, taking turns in one run."""
    torch.set_num_threads(1)
    with scratch() as folder:
        loops = {"checked": chapman_loop(folder)}
        os.environ[SKIP_CHECKSUMS] = "1"
        try:
            loops["unchecked"] = chapman_loop(folder)
        finally:
            del os.environ[SKIP_CHECKSUMS]
        for loop in loops.values():
            _first_epoch(loop.data.train.frames)
        _gathers(folder / "store")
        _steps({name: run_steps(loop) for name, loop in loops.items()})
        _first_reads(folder / "store")


def _first_epoch(frames: Frames) -> list[npt.NDArray[np.int64]]:
    """Gather every item once, and return the batches."""
    batches = np.array_split(np.random.default_rng(0).permutation(len(frames)), len(frames) // BATCH)
    for items in batches:
        frames.gather(items)
    return batches


def _gathers(folder: Path) -> None:
    ways = {check: Frames(clocs.open_store(folder, check=check), POLICY) for check in (True, False)}
    batches, _ = (_first_epoch(frames)[:20] for frames in ways.values())

    def gather(check: bool) -> float:
        return seconds(lambda: [ways[check].gather(items) for items in batches])

    pairs = [(gather(True), gather(False)) for _ in range(ROUNDS)]
    line("batches, checked / unchecked store", statistics.median(b / a for a, b in pairs), 0.98, unit="x")


def _steps(ways: dict[str, Callable[[], None]]) -> None:
    for way in ways.values():
        way()
    pairs = [(seconds(ways["checked"]), seconds(ways["unchecked"])) for _ in range(11)]
    line("training, checked / unchecked store", statistics.median(b / a for a, b in pairs), 0.98, unit="x")


def _first_reads(folder: Path) -> None:
    gigabytes = sum(path.stat().st_size for path in (folder / "shards").glob("*.arrow")) / 1e9
    for workers in (1, 4):
        runs = [[in_child(_FIRST_READ, folder, workers, check) for check in ("check", "skip")] for _ in range(3)]
        checked, unchecked = (statistics.median(times) / gigabytes for times in zip(*runs, strict=True))
        read = f"first read of {gigabytes:.2f} GB, {workers} processes"
        print(f"  {read}: {checked:.2f} s/GB checked, {unchecked:.2f} s/GB unchecked")
