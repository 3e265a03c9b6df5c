"""Benchmarks of stores: ingest, batches, opening, and memory."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring import (
    DATA,
    in_child,
    in_turns,
    line,
    memory_of_this_process,
    memory_of_workers,
    peak_memory,
    processor_seconds,
    ratios,
    scratch,
    seconds,
    worker_memory_growth,
)

import clocs
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import Dataset, Entry
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import LEAD_EQUATIONS, STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames

BATCH, WINDOW, ROUNDS = 256, 2500, 60
SMALL, LARGE = 10_000, 1_000_000


def synthetic_speed() -> None:
    """Compare the generation of 12-lead recordings of 10 s at 500 Hz with drawing as many normal numbers."""
    dataset = clocs.DATASETS.get("synthetic")
    options = dataset.parse_options({"num_records": 100})
    source: Any = None
    entries = list(dataset.entries(source, options))
    random = np.random.default_rng(0)
    taken = in_turns(
        {
            "numbers": lambda: [random.standard_normal((12, 5000)) for _ in entries],
            "recordings": lambda: [dataset.load(source, entry, options) for entry in entries],
        },
        11,
        processor_seconds,
    )
    print(f"  {len(entries) / statistics.median(taken['recordings']):,.0f} synthetic recordings/s")
    line("synthetic recordings / normal numbers", ratios(taken["numbers"], taken["recordings"]), 0.4, unit="x")


def ingest_speed() -> None:
    """Compare ingesting the complete Chapman dataset with a bare ``wfdb.rdrecord`` loop."""
    import wfdb

    with scratch() as folder:
        with zipfile.ZipFile(DATA / "chapman.zip") as archive:
            archive.extractall(folder / "files")
        records = sorted(str(path.with_suffix("")) for path in (folder / "files").rglob("*.hea"))
        bare = processor_seconds(lambda: [wfdb.rdrecord(record) and None for record in records])
        serial = processor_seconds(lambda: clocs.ingest("chapman", folder / "files", folder / "one"))
        one = seconds(lambda: clocs.ingest("chapman", folder / "files", folder / "again"))
        two = seconds(lambda: clocs.ingest("chapman", folder / "files", folder / "two", workers=2))
    print(f"  {len(records)} records, processor time: wfdb {bare:.1f} s, one worker {serial:.1f} s")
    print(f"  time: one worker {one:.1f} s, two workers {two:.1f} s")
    line("ingest, one worker / bare wfdb loop", bare / serial, 0.7, unit="x")
    line("ingest, two workers / one worker, quiet", one / two, 1.2, unit="x")


def gather_speed() -> None:
    """Compare random batches of 256 single-lead frames of 2,500 samples with a raw memory map."""
    with scratch() as folder:
        store = clocs.ingest("chapman", DATA / "chapman.zip", folder / "store", workers=2)
        frames = Frames(store, FramePolicy(num_samples=WINDOW, sampling_rate=500, leads=("II", "V2", "aVL", "aVR")))
        raw = np.memmap(folder / "raw", np.int16, "w+", shape=(len(frames), WINDOW))
        for start in range(0, len(frames), 4096):
            batch = frames.gather(np.arange(start, min(start + 4096, len(frames))))
            raw[start : start + len(batch)] = np.rint(batch[:, 0] * 1000)
        raw.flush()
        random = np.random.default_rng(0)
        batches = [random.integers(0, len(frames), BATCH) for _ in range(20)]

        def from_map() -> None:
            for items in batches:
                np.multiply(raw[items], np.float32(0.001), dtype=np.float32)

        def from_store() -> None:
            for items in batches:
                frames.gather(items)

        taken = in_turns({"map": from_map, "store": from_store}, ROUNDS, processor_seconds)
    plain, ours = (BATCH * len(batches) / statistics.median(times) for times in taken.values())
    print(f"  {len(store.shards)} shards: memory map {plain:,.0f} frames/s, store {ours:,.0f} frames/s")
    line("batches from the store / raw memory map", ratios(taken["map"], taken["store"]), 0.7, unit="x")


def lead_gather_speed() -> None:
    """Compare the time of a lead in frames of twelve leads, eight of them stored, with a single-lead frame."""
    with scratch() as folder:
        full = clocs.ingest("synthetic", None, folder / "twelve", options={"num_records": 2000})
        stored = tuple(lead for lead in STANDARD_LEADS if lead not in LEAD_EQUATIONS)
        signals = [recording.select(stored).signal for recording in full]
        store = clocs.Store.from_arrays(folder / "eight", signals, sampling_rate=500, leads=stored, gate=GATE_OFF)
        single = Frames(store, FramePolicy(num_samples=WINDOW, sampling_rate=500, leads=stored))
        twelve = Frames(store, FramePolicy(num_samples=WINDOW, sampling_rate=500, leads=STANDARD_LEADS), all_leads=True)
        random = np.random.default_rng(0)

        def gather(frames: Frames, batches: list[npt.NDArray[np.int64]]) -> None:
            for items in batches:
                frames.gather(items)

        ways: dict[str, Callable[[], object]] = {}
        for name, frames, count in (("single", single, 24), ("twelve", twelve, 2)):  # as many leads
            gather(frames, np.array_split(np.arange(len(frames)), len(frames) // BATCH))
            batches = [random.integers(0, len(frames), BATCH) for _ in range(count)]
            ways[name] = functools.partial(gather, frames, batches)
        taken = in_turns(ways, ROUNDS, processor_seconds)
    found = ratios(taken["twelve"], taken["single"])
    line("gathering a lead, of twelve / single", found, 1.3, at_least=False, unit="x")


def first_recordings(count: int) -> Dataset:
    """Return the dataset Chapman with its first recordings alone."""
    chapman = clocs.DATASETS.get("chapman")
    return replace(chapman, entries=lambda *given: itertools.islice(chapman.entries(*given), count))


def ingest_memory(count: int, folder: str) -> float:
    """Return the peak memory in MB of a worker that ingests a number of recordings."""
    with peak_memory(memory_of_workers) as peak:
        clocs.ingest(first_recordings(count), DATA / "chapman.zip", folder, workers=2)
    return peak[0]


def memory_growth() -> None:
    """Measure the peak memory of an ingest worker, at 1,000 and at 10,000 recordings."""
    worker_memory_growth("ingest worker's memory", ingest_memory, (1000, 10_000))


def open_and_draw(folder: str) -> tuple[float, float]:
    """Return the seconds of opening a store and drawing a batch, and the peak memory of the process in MB."""
    before = time.perf_counter()
    frames = Frames(clocs.open_store(folder), FramePolicy(num_samples=100, sampling_rate=100))
    batch = frames.gather(np.random.default_rng(0).integers(0, len(frames), 256))
    spent = time.perf_counter() - before
    assert batch.shape == (256, 1, 100)
    return spent, memory_of_this_process("VmHWM")


def open_growth() -> None:
    """Compare opening a store and drawing a batch, for a million and for ten thousand recordings."""
    with scratch() as folder:
        for count in (SMALL, LARGE):
            _write_short_recordings(folder / str(count), count)
        runs = [[in_child(open_and_draw, folder / str(count)) for count in (SMALL, LARGE)] for _ in range(9)]
    small, large = ([run[place][0] for run in runs] for place in (0, 1))
    times = (
        f"{statistics.median(small) * 1e3:.1f} ms of {SMALL:,}, {statistics.median(large) * 1e3:.1f} ms of {LARGE:,}"
    )
    print(f"  open and draw: {times} recordings")
    line("open and draw, 1,000,000 / 10,000 recordings", ratios(large, small), 2.0, at_least=False, unit="x")
    line(
        "memory to open and draw from 1,000,000", [run[1][1] for run in runs], 300, at_least=False, unit="MB", digits=0
    )


def _write_short_recordings(folder: Path, count: int) -> None:
    """Write a store of recordings of one lead and one second."""
    dataset = clocs.DATASETS.get("synthetic")
    options = {"num_records": count, "leads": 1, "seconds": 1, "sampling_rate": 100}
    parsed = dataset.parse_options(options)
    source: Any = None
    few = [dataset.load(source, entry, parsed) for entry in itertools.islice(dataset.entries(source, parsed), 64)]

    def entries(source: Source, options: Any) -> Iterator[Entry]:
        return (Entry(f"small/{number}", f"{number:07d}", f"{number // 2:07d}") for number in range(count))

    def load(source: Source, entry: Entry, options: Any) -> Recording:
        signal = few[int(entry.record_id) % len(few)]
        return replace(signal, record_id=entry.record_id, patient_id=entry.patient_id)

    small = replace(dataset, entries=entries, load=load, records_per_shard=1 << 16)
    clocs.ingest(small, None, folder, gate=GATE_OFF, options=options)
