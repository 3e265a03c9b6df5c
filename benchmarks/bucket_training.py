"""Measure training from a bucket with a cache of a fifth of the store.

    python benchmarks/bucket_training.py [RECORDINGS]

CMSC is trained for two epochs with ``shuffle=blocks`` on a synthetic store, from a folder and from a bucket of a
SeaweedFS server on this machine. Each rank stands for a node: it has a cache of its own. In the last row two
ranks share one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring import ROOT, scratch

import clocs
from clocs.core.storage.counters import counts
from clocs.core.storage.object_cache import CACHE, LIMIT

sys.path.insert(0, str(ROOT))
from tests.object_server import BUCKET, ObjectServer, disk_use

RECORDS_PER_SHARD, EPOCHS, RANKS = 128, 2, (1, 2, 4)
SETTINGS = (
    *("shuffle=blocks", "shuffle_lanes=8", "shuffle_window=1", "batch_size=64", f"max_epochs={EPOCHS}", "onnx=false"),
    "checkpoint_every=1000",
)


def train_as_rank(store: str, runs: Path, ranks: int) -> None:
    """Train as one of several processes, and write what this one has read."""
    rank, used = int(os.environ.get("RANK", "0")), [0]
    if os.environ[CACHE].endswith("-"):
        os.environ[CACHE] += str(rank)

    def progress(known: dict[str, Any]) -> None:
        used.append(disk_use())

    found = clocs.pretrain(
        "cmsc-synthetic", [f"store={store}", f"runs={runs}", f"devices={ranks}", *SETTINGS], progress=progress
    )
    since = {**counts(), "disk": max(used), "run": found["run"]}
    Path(f"{runs}-{rank}.json").write_text(json.dumps(since))


def measure(store: str, folder: Path, name: str, ranks: int) -> dict[str, Any]:
    """Run all ranks of a training, and return its speed, bytes and disk use."""
    runs = folder / f"runs-{name}"
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launch, __file__, "rank", store, str(runs), str(ranks)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = [json.loads(Path(f"{runs}-{rank}.json").read_text()) for rank in range(ranks)]
    timing = [json.loads(line) for line in (Path(found[0]["run"]) / "timing.jsonl").read_text().splitlines()]
    total = {key: sum(float(each[key]) for each in timing) for key in ("frames", "seconds", "processor")}
    return {
        "speed": total["frames"] / total["seconds"],
        "processor_speed": total["frames"] / total["processor"] / ranks,
        "bytes": [each["bucket_bytes_read"] for each in found],
        "disk": max(each["disk"] for each in found),
    }


def main() -> None:
    """Print a Markdown table: speed, bytes read by each node in an epoch, and largest use of the disk."""
    num_records = int(sys.argv[1]) if sys.argv[1:] else 12_800
    server = ObjectServer()
    with scratch() as folder:
        try:
            server.start()
            server.make_bucket()
            os.environ.update(server.environment())
            os.environ[CACHE] = tempfile.mkdtemp(dir=folder)
            dataset = replace(clocs.DATASETS.get("synthetic"), records_per_shard=RECORDS_PER_SHARD)
            stores = [str(folder / "store"), f"s3://{BUCKET}/store"]
            for store in stores:
                clocs.split(clocs.ingest(dataset, None, store, options={"num_records": num_records, "leads": 1}))
            size = sum(info.bytes for info in clocs.open_store(stores[0]).shards)
            os.environ[LIMIT] = str(size // 5)
            print(f"{size / 1e6:.1f} MB in {num_records // RECORDS_PER_SHARD} shards, a cache of {size / 5e6:.1f} MB\n")
            print(
                "| | frames/s | frames/s of processor time | of the store read per node and epoch | disk of the cache |"
            )
            print("|---|---|---|---|---|", flush=True)
            plain = measure(stores[0], folder, "local", 1)
            print(f"| folder, 1 rank | {plain['speed']:.0f} | {plain['processor_speed']:.0f} | | |", flush=True)
            cases = [(f"bucket, {count} node(s)", count, "-") for count in RANKS] + [
                ("bucket, 2 ranks of a node", 2, "")
            ]
            for name, ranks, ending in cases:
                with tempfile.TemporaryDirectory(dir=folder) as cache:
                    os.environ[CACHE] = f"{cache}/cache{ending}"
                    found = measure(stores[1], folder, f"{ranks}{ending}", ranks)
                read = [number / size / EPOCHS for number in found["bytes"]]
                shares = [max(read)] if ending else [sum(read)]
                print(
                    f"| {name} | {found['speed']:.0f} | {found['processor_speed']:.0f} | {shares[0]:.2f} | "
                    f"{found['disk'] / 1e6:.1f} MB |",
                    flush=True,
                )
        finally:
            server.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        train_as_rank(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
