"""Demonstration for ``clocs serve --demo``: an index of synthetic patients, and their recordings."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from clocs.core.sources.source import Source
from clocs.datasets.dataset import DATASETS, Entry, Options
from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.index.manifest import MANIFEST_FILE
from clocs.similarity.index.updates import build_index
from clocs.store.ingest import ingest
from clocs.training.shipped import DEFAULT_ENCODER

RECORDS: Final = 400
"""Number of recordings: two per patient, in five rhythms."""
SEED: Final = 7
FIRST_TIME: Final = datetime(2024, 1, 1, 8, 12)
EVERY: Final = timedelta(hours=29, minutes=17)


@contextlib.contextmanager
def demo_index(folder: Path | None, encoder: str | None) -> Iterator[Path]:
    """Yield the demonstration index in a folder, created if necessary; by default in a temporary folder."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clocs-demo-")))
        make_demo(folder, encoder or DEFAULT_ENCODER)
        yield folder / "index"


def _dated_entries(source: Source, options: Options) -> Iterator[Entry]:
    """Yield the entries of the dataset ``synthetic`` with a time each: an ECG every 29 hours."""
    for number, entry in enumerate(DATASETS.get("synthetic").entries(source, options)):
        yield replace(entry, acquired=(FIRST_TIME + number * EVERY).isoformat())


def make_demo(folder: Path, encoder: str, records: int = RECORDS) -> None:
    """Create store, archive and index, unless the index exists."""
    if (folder / "index" / MANIFEST_FILE).exists():
        return
    dated = replace(DATASETS.get("synthetic"), entries=_dated_entries)
    ingest(dated, None, folder / "store", options={"num_records": records, "leads": 12, "seed": SEED})
    embed_store(encoder, folder / "store", folder / "archive")
    build_index(folder / "archive", folder / "index")
