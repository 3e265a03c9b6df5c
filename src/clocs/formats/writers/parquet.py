"""Write Parquet: one row per recording, with its metadata and its leads as lists of millivolts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clocs.core.recording import Recording, missing_value
from clocs.core.storage.files import atomic_file
from clocs.formats.writing import EncodedRecording, Writer

if TYPE_CHECKING:
    import pyarrow as pa

COMPRESSION = "zstd"
MAX_EXACT_VALUE = 1 << 24
"""Largest distance from the baseline at which 32-bit floating point represents every digital value exactly."""
ROUNDED = "values are rounded to 32-bit floating point"
GROUP_VALUES = 4 << 20
"""Number of samples after which a row group is written."""


def schema() -> pa.Schema:
    """Return the columns of the table. ``signal`` has one list per lead, in the order of ``leads``; NaN is missing."""
    import pyarrow as pa

    episode = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("label", pa.string())])
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("patient_id", pa.string()),
            ("age", pa.float64()),
            ("sex", pa.string()),
            ("labels", pa.list_(pa.string())),
            ("episodes", pa.list_(episode)),
            ("sampling_rate", pa.float64()),
            ("num_samples", pa.int64()),
            ("unit", pa.string()),
            ("leads", pa.list_(pa.string())),
            ("derived", pa.list_(pa.string())),
            ("gain", pa.list_(pa.float64())),
            ("baseline", pa.list_(pa.int32())),
            ("signal", pa.list_(pa.list_(pa.float32()))),
        ]
    )


def table(recordings: Sequence[Recording]) -> pa.Table:
    """Return a table with one row per recording."""
    import pyarrow as pa

    rows = [_row(recording) for recording in recordings]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    arrays = [pa.array(values, schema().field(name).type) for name, values in columns.items()]
    return pa.table([*arrays, _signal_column(recordings)], schema=schema())


def _row(recording: Recording) -> dict[str, Any]:
    return {
        "record_id": recording.record_id,
        "patient_id": recording.patient_id or None,
        "age": recording.age,
        "sex": recording.sex,
        "labels": recording.labels,
        "episodes": [vars(episode) for episode in recording.episodes],
        "sampling_rate": recording.sampling_rate,
        "num_samples": recording.num_samples,
        "unit": recording.unit,
        "leads": recording.leads,
        "derived": recording.provenance.derived_leads,
        "gain": recording.gain,
        "baseline": recording.baseline,
    }


def _signal_column(recordings: Sequence[Recording]) -> pa.Array:
    """Build a column of nested lists on one buffer of numbers."""
    import pyarrow as pa

    leads = np.cumsum([0, *(len(recording.leads) for recording in recordings)], dtype=np.int32)
    lengths = [recording.num_samples for recording in recordings for _ in recording.leads]
    samples = np.cumsum([0, *lengths], dtype=np.int32)
    values = pa.array(np.concatenate([recording.physical().reshape(-1) for recording in recordings]))
    return pa.ListArray.from_arrays(leads, pa.ListArray.from_arrays(samples, values))


def conversion_notes(recording: Recording) -> tuple[str, ...]:
    """Return notes on information that the table does not keep."""
    centered = recording.digital - recording.baseline[:, None].astype(np.int64)
    valid = recording.digital != missing_value(recording.digital.dtype)
    return (ROUNDED,) if np.abs(centered).max(initial=0, where=valid) > MAX_EXACT_VALUE else ()


def _encode(recording: Recording, stem: str) -> EncodedRecording:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table([recording]), sink, compression=COMPRESSION)
    return EncodedRecording({".parquet": sink.getvalue().to_pybytes()}, conversion_notes(recording))


@contextmanager
def parquet_file(path: Path) -> Iterator[Callable[[Recording], None]]:
    """Open a file for many recordings, which are written in row groups to limit memory.

    Call the yielded function with each recording. The file is created atomically when the context ends.
    """
    import pyarrow.parquet as pq

    pending: list[Recording] = []
    values = 0

    def flush() -> None:
        nonlocal values
        if pending:
            writer.write_table(table(pending))
            pending.clear()
            values = 0

    def add(recording: Recording) -> None:
        nonlocal values
        pending.append(recording)
        values += recording.digital.size
        if values >= GROUP_VALUES:
            flush()

    with atomic_file(path) as file, pq.ParquetWriter(file, schema(), compression=COMPRESSION) as writer:
        yield add
        flush()


PARQUET = Writer("parquet", "Parquet: a row a recording, leads as lists of millivolts", (".parquet", ".pq"), _encode)
