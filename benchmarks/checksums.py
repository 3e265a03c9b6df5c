"""Benchmark of checksums on use: gathers and training steps after the first epoch, and the first read."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from measuring import in_child, in_turns, line, ratios, scratch, seconds
from training import chapman_loop, run_steps

import clocs
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.reader import SKIP_CHECKSUMS
from clocs.training.batches import Batches

BATCH, ROUNDS = 256, 60
POLICY = FramePolicy(num_samples=2500, sampling_rate=500, leads=("II", "V2", "aVL", "aVR"))


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
            batches = loop.data.train
            assert isinstance(batches, Batches)
            _first_epoch(batches.datasets[0].frames)
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
    ways = {
        name: Frames(clocs.open_store(folder, check=check), POLICY)
        for name, check in (("checked", True), ("unchecked", False))
    }
    batches, _ = (_first_epoch(frames)[:20] for frames in ways.values())

    def gather(frames: Frames) -> float:
        return seconds(lambda: [frames.gather(items) for items in batches])

    taken = in_turns(ways, ROUNDS, gather)
    line("batches, checked / unchecked store", ratios(taken["unchecked"], taken["checked"]), 0.98, unit="x")


def _steps(ways: dict[str, Callable[[], None]]) -> None:
    taken = in_turns(ways, 11, seconds)
    line("training, checked / unchecked store", ratios(taken["unchecked"], taken["checked"]), 0.98, unit="x")


def first_read(folder: str, workers: int, check: bool) -> float:
    """Return the seconds in which forked processes read all frames of a store, divided among them."""
    frames = Frames(clocs.open_store(folder, check=check), POLICY)

    def read(part: npt.NDArray[np.int64]) -> None:
        for begin in range(0, len(part), BATCH):
            frames.gather(part[begin : begin + BATCH])

    before, children = time.perf_counter(), []
    for part in np.array_split(np.arange(len(frames)), workers):
        child = os.fork()
        if not child:
            read(part)
            os._exit(0)
        children.append(child)
    assert not any(os.waitpid(child, 0)[1] for child in children)
    return time.perf_counter() - before


def _first_reads(folder: Path) -> None:
    gigabytes = sum(path.stat().st_size for path in (folder / "shards").glob("*.arrow")) / 1e9
    for workers in (1, 4):
        runs = [[in_child(first_read, folder, workers, check) for check in (True, False)] for _ in range(3)]
        checked, unchecked = (statistics.median(times) / gigabytes for times in zip(*runs, strict=True))
        read = f"first read of {gigabytes:.2f} GB, {workers} processes"
        print(f"  {read}: {checked:.2f} s/GB checked, {unchecked:.2f} s/GB unchecked")
