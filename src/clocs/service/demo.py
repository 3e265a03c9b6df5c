"""``clocs serve --demo``: made-up patients, embedded and indexed, so that a service can be tried without any data."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.index.changes import build_index
from clocs.similarity.index.manifest import MANIFEST_FILE
from clocs.store.ingest import ingest
from clocs.training.shipped import DEFAULT_ENCODER

RECORDS: Final = 600
"""Two of each patient, in five rhythms."""
SEED: Final = 7


@contextlib.contextmanager
def demo_index(folder: Path | None, encoder: str | None) -> Iterator[Path]:
    """The index of a demonstration: in the folder, made there if it is not yet; without one, gone at the end."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clocs-demo-")))
        make_demo(folder, encoder or DEFAULT_ENCODER)
        yield folder / "index"


def make_demo(folder: Path, encoder: str, records: int = RECORDS) -> None:
    """Store, archive of embeddings and index; what is there already stays."""
    if (folder / "index" / MANIFEST_FILE).exists():
        return
    ingest("synthetic", None, folder / "store", options={"records": records, "leads": 12, "seed": SEED})
    embed_store(encoder, folder / "store", folder / "archive")
    build_index(folder / "archive", folder / "index")
