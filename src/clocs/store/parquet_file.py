"""One Parquet file of many recordings, written as they come, in memory that does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from clocs.core.files import atomic_file
from clocs.core.recording import Recording
from clocs.formats.writers.parquet import COMPRESSION, schema, table

GROUP_VALUES = 4 << 20
"""Samples of a row group; it is written when it has as many."""


@contextmanager
def parquet_file(path: Path) -> Iterator[Callable[[Recording], None]]:
    """Call what this gives with each recording; the file is there once all is written, or not at all."""
    waiting: list[Recording] = []
    values = 0

    def flush() -> None:
        nonlocal values
        if waiting:
            writer.write_table(table(waiting))
            waiting.clear()
            values = 0

    def add(recording: Recording) -> None:
        nonlocal values
        waiting.append(recording)
        values += recording.digital.size
        if values >= GROUP_VALUES:
            flush()

    with atomic_file(path) as file, pq.ParquetWriter(file, schema(), compression=COMPRESSION) as writer:
        yield add
        flush()
