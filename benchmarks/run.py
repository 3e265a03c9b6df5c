"""All benchmarks: one line a result, with name, value and limit.

Ratios are taken inside one run, because machines differ and are noisy:

    python benchmarks/run.py [NAME ...]

Real data are looked for as the tests do (``CLOCS_DATA`` or ``../shared/data``). Stores are made in a
temporary folder (``CLOCS_SCRATCH`` chooses where).
"""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from checksums import checksum_cost
from encoder_forms import encoder_forms
from formats import reading_speed
from measuring import (
    DATA,
    child_processor_seconds,
    in_child,
    line,
    processor_seconds,
    scratch,
    seconds,
    watched,
)
from search import embedding_memory, search_growth, search_lists, search_speed
from service import service_crowd, service_end, service_overload, service_speed
from training import loss_growth, training_speed

import clocs
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import Entry
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import LEAD_EQUATIONS, STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames

BATCH, WINDOW, ROUNDS = 256, 2500, 60
SMALL, LARGE = 10_000, 1_000_000


def help_time() -> None:
    """Measure the processor time of ``clocs --help`` in a new process."""
    command = [sys.executable, "-m", "clocs", "--help"]
    times = [child_processor_seconds(command) for _ in range(5)]
    line("clocs --help", min(times), 0.5, at_least=False, unit="s")


def synthetic_speed() -> None:
    """Measure the generation of 12-lead recordings of 10 s at 500 Hz, per second of processor time."""
    dataset = clocs.DATASETS.get("synthetic")
    options = dataset.parse_options({"num_records": 3000})
    source: Any = None
    entries = list(dataset.entries(source, options))
    spent = processor_seconds(lambda: [dataset.load(source, entry, options) for entry in entries])
    line("synthetic recordings", len(entries) / spent, 500, unit="records/s")


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
    line("ingest, two workers / one worker, quiet", one / two, 1.6, unit="x")


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

        from_map(), from_store()
        pairs = [(processor_seconds(from_map), processor_seconds(from_store)) for _ in range(ROUNDS)]
    speed = BATCH * len(batches)
    plain, ours = (speed / statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"  {len(store.shards)} shards: memory map {plain:,.0f} frames/s, store {ours:,.0f} frames/s")
    line("batches from the store / raw memory map", statistics.median(a / b for a, b in pairs), 0.9, unit="x")


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
        ways = [
            (frames, [random.integers(0, len(frames), BATCH) for _ in range(count)])
            for frames, count in ((single, 24), (twelve, 2))  # as many leads
        ]

        def gather(frames: Frames, batches: list[npt.NDArray[np.int64]]) -> None:
            for items in batches:
                frames.gather(items)

        for frames, _ in ways:
            gather(frames, np.array_split(np.arange(len(frames)), len(frames) // BATCH))
        pairs = [[processor_seconds(functools.partial(gather, *way)) for way in ways] for _ in range(ROUNDS)]
    ratio = statistics.median(many / one for one, many in pairs)
    line("gathering a lead, of twelve / single", ratio, 1.3, at_least=False, unit="x")


_WORKER_MEMORY = watched("", "clocs.ingest(some, source, folder, workers=2)")


def memory_growth() -> None:
    """Measure the peak memory of an ingest worker, at 1,000 and at 10,000 recordings."""
    with scratch() as folder:
        small, large = (
            in_child(_WORKER_MEMORY, count, DATA / "chapman.zip", folder / str(count)) for count in (1000, 10_000)
        )
    print(f"  a worker's peak: {small / 2**20:.0f} MB at 1,000, {large / 2**20:.0f} MB at 10,000 recordings")
    line("worker memory, 10,000 / 1,000 recordings", large / small, 1.1, at_least=False, unit="x")


_OPEN = """
import json, sys, time
import numpy as np, clocs
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
before = time.perf_counter()
store = clocs.open_store(sys.argv[1])
frames = Frames(store, FramePolicy(num_samples=100, sampling_rate=100))
batch = frames.gather(np.random.default_rng(0).integers(0, len(frames), 256))
spent = time.perf_counter() - before
assert batch.shape == (256, 1, 100)
# Not getrusage: its peak is inherited from the parent process.
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([spent, peak / 1024, len(store)]))
"""


def open_growth() -> None:
    """Compare opening a store and drawing a batch, for a million and for ten thousand recordings."""
    with scratch() as folder:
        for count in (SMALL, LARGE):
            _small_store(folder / str(count), count)
        runs = [[in_child(_OPEN, folder / str(count)) for count in (SMALL, LARGE)] for _ in range(9)]
    times = [statistics.median(run[place][0] for run in runs) for place in (0, 1)]
    print(f"  open and draw: {times[0] * 1e3:.1f} ms of {SMALL:,}, {times[1] * 1e3:.1f} ms of {LARGE:,} recordings")
    line("open and draw, 1,000,000 / 10,000 recordings", times[1] / times[0], 2.0, at_least=False, unit="x")
    line("memory to open and draw from 1,000,000", max(run[1][1] for run in runs), 300, at_least=False, unit="MB")


def _small_store(folder: Path, count: int) -> None:
    """Write a store of recordings of one lead and one second."""
    dataset = clocs.DATASETS.get("synthetic")
    options = {"num_records": count, "leads": 1, "seconds": 1, "sampling_rate": 100}
    parsed = dataset.parse_options(options)
    source: Any = None
    few = [dataset.load(source, entry, parsed) for entry in itertools.islice(dataset.entries(source, parsed), 64)]

    def entries(source: Source, options: Any) -> Iterator[Entry]:
        return (Entry(f"small/{number}", f"{number:07d}", f"{number // 2:07d}") for number in range(count))

    def load(source: Source, entry: Entry, options: Any) -> Recording:
        return replace(few[hash(entry.record_id) % 64], record_id=entry.record_id, patient_id=entry.patient_id)

    small = replace(dataset, entries=entries, load=load, records_per_shard=1 << 16)
    clocs.ingest(small, None, folder, gate=GATE_OFF, options=options)


BENCHMARKS: dict[str, Callable[[], None]] = {
    "help": help_time,
    "synthetic": synthetic_speed,
    "ingest": ingest_speed,
    "gather": gather_speed,
    "gather-leads": lead_gather_speed,
    "checksums": checksum_cost,
    "memory": memory_growth,
    "open": open_growth,
    "forms": encoder_forms,
    "training": training_speed,
    "growth": loss_growth,
    "embedding": embedding_memory,
    "search": search_speed,
    "search-growth": search_growth,
    "search-lists": search_lists,
    "formats": reading_speed,
    "service": service_speed,
    "service-overload": service_overload,
    "service-crowd": service_crowd,
    "service-end": service_end,
}


def main() -> None:
    """Run the given benchmarks, or all."""
    unknown = [name for name in sys.argv[1:] if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
