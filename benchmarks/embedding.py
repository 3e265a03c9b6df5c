"""Benchmarks of embedding a store: speed against its network alone, and memory of a worker."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measuring import (
    DATA,
    in_turns,
    line,
    memory_of_workers,
    peak_memory,
    processor_seconds,
    ratios,
    scratch,
    worker_memory_growth,
)
from stores import first_recordings

import clocs
from clocs.inference.preparation import prepare
from clocs.similarity.archive.recording_vectors import rows_to_embed
from clocs.store.store import Store

ROUNDS = 5
ENCODERS = {"cmsc-chapman": 400, "clocs-small": 400, "clocs-base": 40}
"""Recordings that each encoder embeds in a round."""
LEAST = {"cmsc-chapman": 0.1, "clocs-small": 0.4, "clocs-base": 0.8}
"""Smallest ratio that holds over runs."""


def embedding_speed() -> None:
    """Compare embedding a store, from its files to the archive, with the network alone on the same rows.

    Twelve leads, ten seconds, one thread. What the network does not take is spent on reading, checks of each
    recording, normalization, and the archive.
    """
    for name, count in ENCODERS.items():
        with scratch() as folder:
            store = clocs.ingest("synthetic", None, folder / "store", options={"num_records": count, "leads": 12})
            _embedding_speed(name, store, folder)


def _embedding_speed(name: str, store: Store, folder: Path) -> None:
    encoder = clocs.load_encoder(name)
    rows = [rows_to_embed(prepare(recording, encoder.input)) for recording in store]
    frames, masks = (
        np.concatenate(parts) for parts in zip(*((row.signals(), row.lead_mask) for row in rows), strict=True)
    )
    archives = (folder / str(number) for number in itertools.count())
    ways: dict[str, Callable[[], object]] = {
        "network": lambda: encoder.embed_frames(frames, masks),
        "store": lambda: clocs.embed_store(encoder, store, next(archives)),
    }
    taken = in_turns(ways, ROUNDS, processor_seconds)
    alone, whole = (len(store) / statistics.median(times) for times in taken.values())
    print(f"  {name}: recordings/s of processor time: network alone {alone:.0f}, from store to archive {whole:.0f}")
    line(f"embedding by {name} / network alone", ratios(taken["network"], taken["store"]), LEAST[name], unit="x")


def embed_memory(count: int, folder: str) -> float:
    """Return the peak memory in MB of a worker that embeds a number of recordings."""
    store = clocs.ingest(first_recordings(count), DATA / "chapman.zip", Path(folder) / "store")
    with peak_memory(memory_of_workers) as peak:
        clocs.embed_store("cmsc-chapman", store, Path(folder) / "archive", workers=2)
    return peak[0]


def embedding_memory() -> None:
    """Measure the peak memory of an embedding worker, at 2,000 and at 10,000 recordings."""
    worker_memory_growth("embedding worker's memory", embed_memory, (2000, 10_000))
