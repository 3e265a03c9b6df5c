"""A script: changes to an archive or an index in processes of their own that are killed.

python changing.py OPERATION FOLDER every STRIDE
python changing.py OPERATION FOLDER random ROUNDS SEED

FOLDER holds ``start``, which is copied to ``0``, ``1``, ... and changed there by a child process. ``every``: the child
of round n kills itself at step n times STRIDE, plus 1, of its durable writes, until one survives. ``random``: it is
killed after a random time. The children are forked: nothing has to be imported again for each.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from itertools import count
from pathlib import Path

import faiss

from clocs.core.storage import files
from clocs.similarity.archive.prune import prune_embeddings
from clocs.similarity.archive.withdraw import withdraw_embeddings
from clocs.similarity.index.updates import add_archive, build_index, rebuild_index
from clocs.similarity.index.withdraw import withdraw_from_index


def embed(place: Path) -> None:
    """Tasks of four recordings."""
    from clocs.inference.pretrained import load_encoder
    from clocs.similarity.archive import embedding

    embedding.RECORDS_PER_TASK = 4  # type: ignore[misc]
    embedding.embed_store(load_encoder(place.parent / "encoder"), place.parent / "store", place / "archive")


GONE = "P0000001"
"""Patient of the first two of the synthetic recordings."""
OPERATIONS: dict[str, Callable[[Path], object]] = {
    "embed": embed,
    "build": lambda place: build_index(place / "first", place / "index", "hnsw"),
    "add": lambda place: add_archive(place / "index", place / "second"),
    "withdraw": lambda place: withdraw_from_index(place / "index", ["p1", "p5"]),
    "rebuild": lambda place: rebuild_index(place / "index"),
    "withdraw embeddings": lambda place: withdraw_embeddings(place / "archive", [GONE]),
    "prune embeddings": lambda place: prune_embeddings(place / "archive", grace=timedelta(0), dry_run=False),
}


def child(operation: str, place: Path, step: int | None) -> None:
    """Never returns."""
    faiss.omp_set_num_threads(1)
    if step is not None:
        steps = iter(range(1, sys.maxsize))
        files.on_write_step = lambda name, path: os.kill(os.getpid(), signal.SIGKILL) if next(steps) == step else None
    try:
        OPERATIONS[operation](place)
    except BaseException as error:
        print(f"{operation}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def run(operation: str, place: Path, step: int | None = None, after: float | None = None) -> bool:
    """Run an operation in a child process, and return True if it was killed."""
    started = os.fork()
    if not started:
        child(operation, place, step)
    if after is not None:
        time.sleep(after)
        os.kill(started, signal.SIGKILL)
    status = os.waitpid(started, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        sys.exit(1)
    return False


def main() -> None:
    operation, folder, way = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    if operation == "embed":
        import_module("clocs.similarity.archive.embedding")
    print(every(operation, folder, int(sys.argv[4])) if way == "every" else at_random(operation, folder, *sys.argv[4:]))


def every(operation: str, folder: Path, stride: int) -> int:
    """Return the number of children that were killed before one finished."""
    for number in count():
        shutil.copytree(folder / "start", folder / str(number))
        if not run(operation, folder / str(number), step=number * stride + 1):
            break
    return number


def at_random(operation: str, folder: Path, rounds: str, seed: str) -> int:
    """Return the number of children that were killed before they finished."""
    choice = random.Random(seed)
    shutil.copytree(folder / "start", folder / "trial")
    began = time.monotonic()
    run(operation, folder / "trial")
    seconds = time.monotonic() - began
    killed = 0
    for number in range(int(rounds)):
        shutil.copytree(folder / "start", folder / str(number))
        killed += run(operation, folder / str(number), after=choice.uniform(0, seconds))
    return killed


if __name__ == "__main__":
    main()
