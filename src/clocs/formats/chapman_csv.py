"""Read Chapman-Shaoxing CSV: twelve columns of microvolt at 500 Hz, without a header line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.recording import MICROVOLT_GAIN, Digital, Provenance, Recording, quantize, to_int32
from clocs.core.sources.source import Source
from clocs.formats.arrow_columns import float_values
from clocs.formats.channels import record_id_from_name
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLING_RATE = 500.0
NUM_COLUMNS = len(STANDARD_LEADS)
MAX_MILLIVOLT = 1e3
"""Maximum absolute value in millivolt. A file with a larger value is damaged."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    fields = head.split(b"\n", 1)[0].split(b",")
    return len(fields) == NUM_COLUMNS and all(_is_number(field) for field in fields)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    digital, notes = _parse(raw, name)
    return Recording(
        digital=digital,
        gain=np.full(NUM_COLUMNS, MICROVOLT_GAIN),
        baseline=np.zeros(NUM_COLUMNS, np.int32),
        sampling_rate=SAMPLING_RATE,
        leads=STANDARD_LEADS,
        record_id=record_id_from_name(name),
        provenance=Provenance(name, "chapman-csv", hashlib.sha256(raw).hexdigest(), notes=notes),
    )


def _parse(raw: bytes, name: str) -> tuple[Digital, tuple[str, ...]]:
    """Parse the digital values, shape (12, samples). Empty, NaN and truncated fields are missing samples."""
    import pyarrow as pa

    last = raw[raw.rstrip().rfind(b"\n") + 1 :]
    num_missing = NUM_COLUMNS - 1 - last.count(b",")
    notes: tuple[str, ...] = ()
    if num_missing > 0:
        raw = raw.rstrip() + b"," * num_missing
        notes = (f"breaks off inside its last row: {num_missing} of {NUM_COLUMNS} fields missing",)
    try:
        blocks = [_digital_batch(batch, name) for batch in _batches(raw)]
    except pa.ArrowException:  # Its message quotes the row.
        raise FormatError(f"{name}: expected {NUM_COLUMNS} numbers per row") from None
    if not sum(block.shape[1] for block in blocks):
        raise FormatError(f"{name}: holds no sample")
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    return np.concatenate(blocks, axis=1), notes


def _batches(raw: bytes) -> Iterator[pa.RecordBatch]:
    """Parse the rows in batches, because numbers take up to four times the memory of their text."""
    import pyarrow as pa
    from pyarrow import csv

    columns = [str(column) for column in range(NUM_COLUMNS)]
    yield from csv.open_csv(
        pa.BufferReader(raw),
        read_options=csv.ReadOptions(column_names=columns, use_threads=False),
        parse_options=csv.ParseOptions(quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.float64()), null_values=["NaN", "nan", ""]
        ),
    )


def _digital_batch(batch: pa.RecordBatch, name: str) -> Digital:
    values = np.empty((NUM_COLUMNS, len(batch)))
    for column, row in zip(batch.columns, values, strict=True):
        np.divide(float_values(column), 1000, out=row)
    if np.nanmax(values, initial=0) > MAX_MILLIVOLT or np.nanmin(values, initial=0) < -MAX_MILLIVOLT:
        raise FormatError(f"{name}: holds values over {MAX_MILLIVOLT:g} mV; the file is damaged")
    return quantize(values, MICROVOLT_GAIN)


CHAPMAN_CSV = Format("chapman-csv", "Chapman-Shaoxing CSV: 12 columns of uV at 500 Hz", _matches, _read)
