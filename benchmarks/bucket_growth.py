"""Measure how the cost of a store in a bucket grows with its recordings.

Measure, then write the table of the docs page from the committed results:

    python benchmarks/bucket_growth.py measure [RECORDINGS ...]
    python benchmarks/bucket_growth.py page

A store as in ``store_growth.py``, with signals of one second, is copied to a SeaweedFS server on this machine. One
process reads it, another one adds to it. Each begins with an empty cache, and first does the same to a small store,
which pays for imports.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measuring import ROOT, in_child, scratch
from page_tables import table, write_tables
from store_growth import NUM_ADDED, PER_SHARD, write_linked_store, write_records_of_one_lead

import clocs
from clocs.core.storage.counters import counts
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.core.storage.object_cache import CACHE

sys.path.insert(0, str(ROOT))
from tests.object_server import BUCKET, ObjectServer

RESULTS, PAGE = ROOT / "results" / "bucket-growth.json", ROOT / "docs" / "how-to" / "object-stores.md"
SIZES = (10_000, 100_000, 1_000_000)
NUM_SAMPLES = 500
OPEN, ADD, ADD_AGAIN = "open", f"add {NUM_ADDED} files", "add the same files again"
READING: dict[str, Callable[[clocs.Store], object]] = {
    "find a recording by its id": lambda store: store.index_of(f"r{len(store) // 3:09d}"),
    "number the patients": lambda store: store.patient_codes(),
    "make a split": lambda store: clocs.split(store, name="again", seed=1),
    "open a split, which checks it for leaks": lambda store: store.split(),
    "read a recording": lambda store: store.recording(len(store) // 2),
}
COUNTERS = {"requests": "bucket_requests", "read": "bucket_bytes_read", "written": "bucket_bytes_written"}


def cost(work: Callable[[], object]) -> dict[str, float]:
    """Return requests, bytes and seconds of a call."""
    before, start, used = counts(), time.perf_counter(), time.process_time()
    work()
    spent, processor, since = time.perf_counter() - start, time.process_time() - used, counts()
    difference = {name: since[key] - before[key] for name, key in COUNTERS.items()}
    return {**difference, "seconds": round(spent, 3), "processor_seconds": round(processor, 3)}


def reading_costs(small: str, large: str) -> dict[str, dict[str, float]]:
    """Return the cost of reading the large store."""
    for url in small, large:
        stores: list[clocs.Store] = []
        found = {OPEN: cost(functools.partial(_open, url, stores))}
        found |= {name: cost(functools.partial(work, *stores)) for name, work in READING.items()}
    return found


def _open(url: str, stores: list[clocs.Store]) -> None:
    stores.append(clocs.open_store(url))


def adding_costs(small: str, large: str, archive: str) -> dict[str, dict[str, float]]:
    """Return the cost of additions to the large store."""
    for url in small, large:
        add = functools.partial(clocs.ingest, "folder", archive, url, append=True)
        found = {name: cost(add) for name in (ADD, ADD_AGAIN)}
    return found


def upload(source: Path, target: str) -> None:
    """Copy the files of a store to a bucket."""
    paths = [path for path in source.rglob("*") if path.is_file() and path.name != ".lock"]

    def put(path: Path) -> None:
        where = to_location(target) / path.relative_to(source).as_posix()
        assert isinstance(where, ObjectPath)
        where.opened.create(where.key, path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, paths))


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """Return requests, bytes and seconds of each operation, for each number of recordings."""
    found: dict[str, Any] = {}
    with scratch() as folder:
        server = ObjectServer()
        try:
            server.start()
            server.make_bucket()
            os.environ.update(server.environment())
            write_records_of_one_lead(folder / "archive", 0, NUM_ADDED)
            write_linked_store(folder / "small", PER_SHARD, NUM_SAMPLES)
            for size in sizes:
                url = f"s3://{BUCKET}/store-{size}"
                write_linked_store(folder / f"store-{size}", size, NUM_SAMPLES)
                upload(folder / f"store-{size}", url)
                upload(folder / "small", f"{url}-small")
                rows = found[str(size)] = {}
                for costs, more in ((reading_costs, ()), (adding_costs, (folder / "archive",))):
                    os.environ[CACHE] = tempfile.mkdtemp(dir=folder)
                    rows |= in_child(costs, f"{url}-small", url, *more)
                print(json.dumps({size: rows}), flush=True)
        finally:
            server.close()
    return found


def growth_table(results: dict[str, Any]) -> str:
    """Return the table of the page: one row an operation, one column a size."""

    def cell(one: dict[str, float]) -> str:
        spent = one["processor_seconds"]
        time = f"{spent:.2f} s" if spent >= 0.1 else f"{1000 * spent:.0f} ms"
        if not one["requests"]:
            return f"none, {time}"
        num_bytes = one["read"] + one["written"]
        size = f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 5e4 else f"{num_bytes / 1e3:.0f} kB"
        return f"{one['requests']}, {size}, {time}"

    titles = ["operation", *(f"{int(size):,} recordings" for size in results)]
    return table(
        titles, [[name, *(cell(rows[name]) for rows in results.values())] for name in (OPEN, *READING, ADD, ADD_AGAIN)]
    )


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if arguments[:1] == ["measure"]:
        results = measure([int(text) for text in arguments[1:]] or SIZES)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    elif arguments == ["page"]:
        write_tables(PAGE, {"growth": growth_table(json.loads(RESULTS.read_text()))})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
