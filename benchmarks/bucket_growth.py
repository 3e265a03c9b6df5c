"""Measure how the cost of a store in a bucket grows with its recordings.

Measure, then write the table of the docs page from the committed results:

    python benchmarks/bucket_growth.py measure [RECORDINGS ...]
    python benchmarks/bucket_growth.py page

A store as in ``store_growth.py``, with signals of one second, is copied to a SeaweedFS server on this machine. One
process reads it, another one adds to it. Each begins with an empty cache, and first does the same to a small store,
which pays for imports.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measuring import ROOT, in_child, scratch
from page_tables import table, write_tables
from store_growth import NUM_ADDED, PER_SHARD, write_linked_store, write_records_of_one_lead

from clocs.core.storage.locations import to_location
from clocs.core.storage.object_cache import CACHE

sys.path.insert(0, str(ROOT))
from tests.object_server import BUCKET, ObjectServer

RESULTS, PAGE = ROOT / "results" / "bucket-growth.json", ROOT / "docs" / "how-to" / "object-stores.md"
SIZES = (10_000, 100_000, 1_000_000)
NUM_SAMPLES = 500
READING = {
    "open": "store = clocs.open_store(folder)",
    "find a recording by its id": "store.index_of(f'r{len(store) // 3:09d}')",
    "number the patients": "store.patient_codes()",
    "make a split": "clocs.split(store, name='again', seed=1)",
    "open a split, which checks it for leaks": "store.split()",
    "read a recording": "store.recording(len(store) // 2)",
}
ADDING = {
    f"add {NUM_ADDED} files": "clocs.ingest('folder', archive, folder, append=True)",
    "add the same files again": "clocs.ingest('folder', archive, folder, append=True)",
}
SCRIPT = """
import json, sys, time
import clocs
from clocs.core.storage.counters import counts
archive, small, large, *operations = sys.argv[1:]
for folder in small, large:
    found = []
    for work in operations:
        before, start, used = counts(), time.perf_counter(), time.process_time()
        exec(work)
        spent, processor, since = time.perf_counter() - start, time.process_time() - used, counts()
        names = {"requests": "bucket_requests", "read": "bucket_bytes_read", "written": "bucket_bytes_written"}
        difference = {name: since[key] - before[key] for name, key in names.items()}
        found.append({**difference, "seconds": round(spent, 3), "processor_seconds": round(processor, 3)})
print(json.dumps(found))
"""


def upload(source: Path, target: str) -> None:
    """Copy the files of a store to a bucket."""
    paths = [path for path in source.rglob("*") if path.is_file() and path.name != ".lock"]

    def put(path: Path) -> None:
        where = to_location(target) / path.relative_to(source).as_posix()
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
                for operations in (READING, ADDING):
                    os.environ[CACHE] = tempfile.mkdtemp(dir=folder)
                    spent = in_child(SCRIPT, folder / "archive", f"{url}-small", url, *operations.values())
                    rows.update(zip(operations, spent, strict=True))
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
    return table(titles, [[name, *(cell(rows[name]) for rows in results.values())] for name in (*READING, *ADDING)])


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
