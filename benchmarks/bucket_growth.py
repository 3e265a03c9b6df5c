"""Measure how the cost of a store in a bucket grows with its recordings.

    python benchmarks/bucket_growth.py [RECORDINGS ...]

A store as in ``store_growth.py``, with signals of five seconds, is copied to a SeaweedFS server on this machine. The
operations run one after the other in a process that begins with an empty cache. Each cell has requests, megabytes and
seconds.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measuring import ROOT, in_child, scratch
from store_growth import NUM_ADDED, write_linked_store, write_records_of_one_lead

from clocs.core.storage.locations import to_location
from clocs.core.storage.object_cache import CACHE

sys.path.insert(0, str(ROOT))
from tests.object_server import BUCKET, ObjectServer

SIZES = (10_000, 100_000)
NUM_SAMPLES = 2500
OPERATIONS = {
    "open": "store = clocs.open_store(folder)",
    "look-up by id": "store.index_of(f'r{len(store) // 3:09d}')",
    "patients": "store.patient_codes()",
    "split": "clocs.split(store, name='again', seed=1)",
    "leak check": "store.split()",
    "one recording": "store.recording(len(store) // 2)",
    f"add {NUM_ADDED} files": "clocs.ingest('folder', archive, folder, append=True)",
    "add them again": "clocs.ingest('folder', archive, folder, append=True)",
}
SCRIPT = """
import json, sys, time
import clocs
from clocs.core.storage.counters import counts
archive, folder, *operations = sys.argv[1:]
found = []
for work in operations:
    before, start = counts(), time.perf_counter()
    exec(work)
    spent, since = time.perf_counter() - start, counts()
    names = ("bucket_requests", "bucket_bytes_read", "bucket_bytes_written")
    found.append([*(since[name] - before[name] for name in names), spent])
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


def main() -> None:
    """Print a Markdown table: one row an operation, one column a size."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    rows: dict[str, list[str]] = {name: [] for name in OPERATIONS}
    with scratch() as folder:
        server = ObjectServer()
        try:
            server.start()
            server.make_bucket()
            os.environ.update(server.environment())
            write_records_of_one_lead(folder / "archive", 0, NUM_ADDED)
            for size in sizes:
                write_linked_store(folder / f"store-{size}", size, NUM_SAMPLES)
                url = f"s3://{BUCKET}/store-{size}"
                upload(folder / f"store-{size}", url)
                os.environ[CACHE] = str(folder / f"cache-{size}")
                for name, found in zip(
                    OPERATIONS, in_child(SCRIPT, folder / "archive", url, *OPERATIONS.values()), strict=True
                ):
                    requests, read, written, spent = found
                    rows[name].append(f"{requests}, {(read + written) / 1e6:.1f} MB, {spent:.2f} s")
                    print(f"{size} {name}: {rows[name][-1]}", flush=True)
        finally:
            server.close()
    print(f"| operation | {' | '.join(f'{size:,} recordings' for size in sizes)} |\n|---|{'---|' * len(sizes)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
