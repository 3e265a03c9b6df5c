"""Measure how the cost of a store grows with its recordings.

    python benchmarks/store_growth.py [RECORDINGS ...]

A store of many recordings is made of links to one shard of 512 recordings. Their metadata are distinct: ids, two
recordings a patient, and hashes of signals. Each operation runs in a process of its own, which first opens the store.

    python benchmarks/store_growth.py files [FILES ...]

A folder of WFDB records gets 100 more. The table shows the ingest of all but these, and then of these.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from measuring import in_child, memory_of_this_process, scratch, seconds

import clocs
from clocs.core.hashes import content_hash
from clocs.store.arrow_files import write_arrow
from clocs.store.checksums import checksums_path, write_checksums
from clocs.store.manifest import Manifest, write_manifest
from clocs.store.segments import COLUMNS, PATIENT_CODE, SegmentInfo, hash_ids, segment_path, shards_batch
from clocs.store.shard import HASH_BYTES, SHARDS

PER_SHARD = 512
SHARDS_PER_SEGMENT = 2048
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
NUM_ADDED = 100
OPERATIONS: dict[str, Callable[[clocs.Store, str], object]] = {
    "open": lambda store, archive: clocs.open_store(store.folder),
    "look-up by id": lambda store, archive: store.index_of(f"r{len(store) // 3:09d}"),
    "patients": lambda store, archive: store.patient_codes(),
    "split": lambda store, archive: clocs.split(store, name="again", seed=1),
    "leak check": lambda store, archive: store.split(),
    "epoch start": lambda store, archive: clocs.FrameDataset(
        store, policy="evaluation", split="default", part="train"
    ).patients([0]),
    "first batch": lambda store, archive: store.frames().gather(np.random.default_rng(0).integers(0, len(store), 256)),
    f"add {NUM_ADDED} files": lambda store, archive: clocs.ingest("folder", archive, store.folder, append=True),
}
"""Operations on an open store, some of which use a folder of recordings."""
FOLDER_SIZES = (1_000, 10_000, 100_000)


def measure_operation(name: str, archive: str, *folders: str) -> tuple[float, float]:
    """Return the seconds of an operation on the last of the stores, and the peak memory of the process in GB.

    Args:
        name: Name of the operation.
        archive: Folder of recordings to be added.
        folders: The store, after a small one that pays for imports.
    """
    for folder in folders:
        store = clocs.open_store(folder)
        spent = seconds(functools.partial(OPERATIONS[name], store, archive))
    return spent, memory_of_this_process("VmHWM") / 1024


def measure_ingest(archive: str, folder: str) -> tuple[float, float]:
    """Return the seconds of an ingest, and the peak memory of the process in GB."""
    spent = seconds(lambda: clocs.ingest("folder", archive, folder))
    return spent, memory_of_this_process("VmHWM") / 1024


def write_linked_store(folder: Path, num_records: int, num_samples: int = 5000) -> None:
    """Write a store of links to one shard, with distinct metadata."""
    signals = np.random.default_rng(0).normal(size=(PER_SHARD, 1, num_samples)).astype(np.float32)
    first = clocs.Store.from_arrays(folder, signals, sampling_rate=500, leads=["II"])
    (info,), columns = first.shards, first.table(COLUMNS).combine_chunks().to_batches()[0]
    shard = folder / SHARDS / info.file
    segments, number = [], 0
    num_shards = max(num_records // PER_SHARD, 1)
    for begin in range(0, num_shards, SHARDS_PER_SEGMENT):
        count = min(SHARDS_PER_SEGMENT, num_shards - begin)
        infos = [info.model_copy(update={"file": f"{begin + each:016x}-0.arrow"}) for each in range(count)]
        for each in infos:
            path = folder / SHARDS / each.file
            os.link(shard, path)
            os.link(checksums_path(shard), checksums_path(path))
        name = content_hash([each.file for each in infos])[:16]
        written = write_arrow(segment_path(folder, name, "shards"), shards_batch(infos))
        rows = count * PER_SHARD
        _write_records(folder, name, columns, number, rows)
        segments.append(SegmentInfo(name=name, sha256=written.sha256, shards=count, records=rows))
        number += rows
    content = first.manifest.model_dump() | {"version": 2, "stored": number, "records_in": number}
    content["dataset"]["name"] = "folder"  # to which files can be added
    content |= {"segments": segments, "content_sha256": content_hash(number)}
    write_manifest(folder, Manifest.model_validate(content))
    clocs.split(folder)


def _write_records(folder: Path, name: str, columns: pa.RecordBatch, first: int, rows: int) -> None:
    numbers, random = np.arange(first, first + rows), np.random.default_rng(first)
    changed = {
        "record_id": pa.array([f"r{number:09d}" for number in numbers]),
        "patient_id": pa.array([f"p{number // 2:09d}" for number in numbers]),
        "signal_hash": _hashes(random, rows),
        "lead_hashes": pa.ListArray.from_arrays(
            pa.array(np.arange(rows + 1, dtype=np.int32)), pa.array(random.integers(1, 2**63, rows, np.uint64))
        ),
    }
    repeated = pa.Table.from_batches([columns] * (rows // len(columns))).combine_chunks().to_batches()[0]
    arrays = [changed.get(column, repeated.column(column)) for column in COLUMNS]
    batch = pa.RecordBatch.from_arrays(arrays, list(COLUMNS))
    batch = batch.append_column(PATIENT_CODE, pa.array(hash_ids(changed["patient_id"].to_pylist())))
    hashes = hash_ids(changed["record_id"].to_pylist())
    order = np.argsort(hashes, kind="stable")
    ids = pa.record_batch({"hash": hashes[order], "row": order.astype(np.uint32)})
    for kind, each in (("records", batch), ("ids", ids)):
        path = segment_path(folder, name, kind)
        written = write_arrow(path, each)
        write_checksums(path, written.sha256, written.checksums)


def _hashes(random: np.random.Generator, rows: int) -> pa.Array:
    buffer = pa.py_buffer(random.bytes(HASH_BYTES * rows))
    return pa.Array.from_buffers(pa.binary(HASH_BYTES), rows, [None, buffer])


def measure_added_files(sizes: Sequence[int]) -> None:
    """Print a Markdown table: seconds and gigabytes of an ingest of a folder, and of one of 100 more files."""
    print("| files | first ingest | 100 more files | nothing new |\n|---|---|---|---|")
    for size in sizes:
        with scratch() as folder:
            archive, cells = folder / "archive", []
            for first, count in ((0, size), (size, NUM_ADDED), (size + NUM_ADDED, 0)):
                write_records_of_one_lead(archive, first, count)
                spent, memory = in_child(measure_ingest, archive, folder / "store")
                cells.append(f"{spent:.2f} s, {memory:.2f} GB")
            print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


def write_records_of_one_lead(archive: Path, first: int, count: int) -> None:
    """Write headers with links to one signal, in folders of 1,000, as of an hour ago."""
    an_hour_ago = time.time() - 3600
    for number in range(first, first + count):
        stem = archive / f"{number // 1000:04d}" / f"r{number:07d}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        signal = stem.parent.with_suffix(".signal")  # a file has at most 65,000 links
        if not signal.exists():
            signal.write_bytes(np.random.default_rng(0).normal(0, 100, 5000).astype("<i2").tobytes())
            os.utime(signal, (an_hour_ago, an_hour_ago))
        os.link(signal, stem.with_suffix(".dat"))
        header = stem.with_suffix(".hea")
        header.write_text(f"{stem.name} 1 500 5000\n{stem.name}.dat 16 1000/mV 16 0 0 0 0 II\n")
        os.utime(header, (an_hour_ago, an_hour_ago))


def main() -> None:
    """Print a Markdown table: seconds and gigabytes of each operation by size."""
    if sys.argv[1:2] == ["files"]:
        return measure_added_files([int(text) for text in sys.argv[2:]] or FOLDER_SIZES)
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print(f"| recordings | {' | '.join(OPERATIONS)} |\n|---|{'---|' * len(OPERATIONS)}")
    for size in sizes:
        with scratch() as folder:
            write_records_of_one_lead(folder / "archive", 0, NUM_ADDED)
            write_linked_store(folder / "small", PER_SHARD)
            write_linked_store(folder / "store", size)
            cells = []
            for name in OPERATIONS:
                stores = folder / "small", folder / "store"
                spent, memory = in_child(measure_operation, name, folder / "archive", *stores)
                cells.append(f"{spent:.3f} s, {memory:.2f} GB")
            print(f"| {size:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
