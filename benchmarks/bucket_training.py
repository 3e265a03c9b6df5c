"""Measure training from a bucket with a cache of a fifth of the store.

    python benchmarks/bucket_training.py nodes [RECORDINGS]
    python benchmarks/bucket_training.py speed [RECORDINGS]
    python benchmarks/bucket_training.py page

CMSC is trained for two epochs with ``shuffle=blocks`` on a synthetic store of 100 shards, from a folder and from a
bucket of a SeaweedFS server on this machine. ``nodes`` prints what nodes read. Each rank stands for a node: it has a
cache of its own. In the last row two ranks share one. ``speed`` trains in turn from the folder and from the bucket with
an empty cache, and ``page`` writes the table of the docs page from the committed results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, scratch
from page_tables import table, write_tables

import clocs
from clocs.core.storage.counters import counts
from clocs.core.storage.object_cache import CACHE, LIMIT

sys.path.insert(0, str(ROOT))
from tests.object_server import BUCKET, ObjectServer, disk_use

RESULTS, PAGE = ROOT / "results" / "bucket-training.json", ROOT / "docs" / "how-to" / "object-stores.md"
SHARDS, EPOCHS, RANKS, REPEATS = 100, 2, (1, 2, 4), 3
SETTINGS = (
    *("shuffle=blocks", "shuffle_window=1", f"max_epochs={EPOCHS}", "onnx=false"),
    "checkpoint_every=1000",
)


def train_as_rank(store: str, runs: Path, ranks: int, lanes: int) -> None:
    """Train as one of several processes, and write what this one has read."""
    rank, used = int(os.environ.get("RANK", "0")), [0]
    if os.environ[CACHE].endswith("-"):
        os.environ[CACHE] += str(rank)

    def progress(known: dict[str, Any]) -> None:
        used.append(disk_use())

    found = clocs.pretrain(
        "cmsc-synthetic",
        [
            f"store={store}",
            f"runs={runs}",
            f"devices={ranks}",
            f"shuffle_lanes={lanes}",
            f"batch_size={8 * lanes}",
            *SETTINGS,
        ],
        progress=progress,
    )
    since = {**counts(), "disk": max(used), "run": found["run"]}
    Path(f"{runs}-{rank}.json").write_text(json.dumps(since))


def measure(store: str, folder: Path, name: str, ranks: int, lanes: int) -> dict[str, Any]:
    """Run all ranks of a training, and return its speed, bytes and disk use."""
    runs = folder / f"runs-{name}"
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launch, __file__, "rank", store, str(runs), str(ranks), str(lanes)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = [json.loads(Path(f"{runs}-{rank}.json").read_text()) for rank in range(ranks)]
    timing = [json.loads(line) for line in (Path(found[0]["run"]) / "timing.jsonl").read_text().splitlines()]
    total = {key: sum(float(each[key]) for each in timing) for key in ("frames", "seconds", "processor", "waiting")}
    return {
        "frames_per_processor_second": total["frames"] / total["processor"] / ranks,
        "waiting": total["waiting"] / total["seconds"],
        "bytes": [each["bucket_bytes_read"] for each in found],
        "disk": max(each["disk"] for each in found),
    }


@contextmanager
def made_stores(num_records: int) -> Iterator[tuple[Path, list[str], int]]:
    """Make a store in a folder and in a bucket. Yield a folder for runs, the two stores and their bytes."""
    server = ObjectServer()
    with scratch() as folder:
        try:
            server.start()
            server.make_bucket()
            os.environ.update(server.environment())
            os.environ[CACHE] = tempfile.mkdtemp(dir=folder)
            dataset = replace(clocs.DATASETS.get("synthetic"), records_per_shard=num_records // SHARDS)
            stores = [str(folder / "store"), f"s3://{BUCKET}/store"]
            for store in stores:
                clocs.split(clocs.ingest(dataset, None, store, options={"num_records": num_records, "leads": 1}))
            size = sum(info.bytes for info in clocs.open_store(stores[0]).shards)
            os.environ[LIMIT] = str(size // 5)
            print(f"{size / 1e6:.1f} MB in {SHARDS} shards, a cache of {size / 5e6:.1f} MB\n", flush=True)
            yield folder, stores, size
        finally:
            server.close()


def measure_nodes(num_records: int) -> None:
    """Print a Markdown table: bytes read by each node in an epoch, and largest use of the disk."""
    with made_stores(num_records) as (folder, stores, size):
        print("| | of the store read per node and epoch | disk of the cache |\n|---|---|---|", flush=True)
        cases = [(f"bucket, {count} node(s)", count, "-") for count in RANKS] + [("bucket, 2 ranks of a node", 2, "")]
        for name, ranks, ending in cases:
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                os.environ[CACHE] = f"{cache}/cache{ending}"
                found = measure(stores[1], folder, f"{ranks}{ending}", ranks, 8)
            read = [number / size / EPOCHS for number in found["bytes"]]
            share = max(read) if ending else sum(read)
            print(f"| {name} | {share:.2f} | {found['disk'] / 1e6:.1f} MB |", flush=True)


def measure_speed(num_records: int) -> dict[str, Any]:
    """Train in turn from the folder and from the bucket, and return what each run took."""
    runs: dict[str, list[dict[str, Any]]] = {"folder": [], "bucket": []}
    with made_stores(num_records) as (folder, stores, size):
        for repeat in range(REPEATS):
            for place, store in zip(runs, stores, strict=True):
                with tempfile.TemporaryDirectory(dir=folder) as cache:
                    os.environ[CACHE] = cache
                    runs[place].append(measure(store, folder, f"{place}-{repeat}", 1, 4))
                print(place, json.dumps(runs[place][-1]), flush=True)
    return {"recordings": num_records, "shards": SHARDS, "bytes": size, "cache": size // 5, "runs": runs}


def speed_table(results: dict[str, Any]) -> str:
    """Return the table of the page: one row a place of the store."""
    rows = []
    for place, runs in results["runs"].items():
        speeds, waits = ([run[key] for run in runs] for key in ("frames_per_processor_second", "waiting"))
        rows.append(
            [
                f"{place}",
                f"{median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f})",
                f"{median(waits):.1%} ({min(waits):.1%} to {max(waits):.1%})",
            ]
        )
    return table(["store in a", "frames a second of processor time", "share of time waiting for batches"], rows)


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    command, *rest = arguments or [""]
    num_records = int(rest[0]) if rest else 12_800
    if command == "nodes":
        measure_nodes(num_records)
    elif command == "speed":
        RESULTS.write_text(json.dumps(measure_speed(num_records), indent=1) + "\n")
    elif command == "page":
        write_tables(PAGE, {"speed": speed_table(json.loads(RESULTS.read_text()))})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        train_as_rank(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(sys.argv[1:])
