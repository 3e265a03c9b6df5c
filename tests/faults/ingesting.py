"""Script: an ingest with small shards that dies at a given step, or hits a limit of the system.

python ingesting.py DATASET SOURCE STORE [--records-per-shard N] [--workers N] [--die-at STEP] [--file-limit BYTES]
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

from clocs.core.errors import ClocsError
from clocs.core.storage import files
from clocs.datasets import DATASETS
from clocs.store.ingest import ingest


def die_at(step: int) -> None:
    """Make this process kill itself at a step, counted from 1, of all durable writes."""
    steps = iter(range(1, sys.maxsize))

    def reached(name: str, path: Path) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    files.on_write_step = reached


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("source")
    parser.add_argument("store")
    parser.add_argument("--records-per-shard", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--file-limit", type=int, default=0)
    given = parser.parse_args()
    if given.die_at:
        die_at(given.die_at)
    if given.file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.file_limit, resource.RLIM_INFINITY))
    dataset = replace(DATASETS.get(given.dataset), records_per_shard=given.records_per_shard)
    try:
        ingest(dataset, given.source, given.store, workers=given.workers)
    except ClocsError as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
