"""Read Chapman-Shaoxing CSV: twelve columns of microvolt at 500 Hz, without a header line."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.recording import MICROVOLT_GAIN, Digital, Provenance, Recording, quantize, to_int32
from clocs.core.sources.source import Source
from clocs.formats.arrow_columns import read_rows
from clocs.formats.channels import record_id_from_name
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS

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
        blocks = [_digital_block(rows, name) for rows in read_rows(raw, NUM_COLUMNS)]
    except pa.ArrowException:  # Its message quotes the row.
        raise FormatError(f"{name}: expected {NUM_COLUMNS} numbers per row") from None
    if not sum(block.shape[1] for block in blocks):
        raise FormatError(f"{name}: holds no sample")
    if any(block.dtype == np.int32 for block in blocks):
        blocks = [to_int32(block) for block in blocks]
    return np.concatenate(blocks, axis=1), notes


def _digital_block(rows: npt.NDArray[np.float64], name: str) -> Digital:
    values = rows / 1000
    if (values > MAX_MILLIVOLT).any() or (values < -MAX_MILLIVOLT).any():
        raise FormatError(f"{name}: holds values over {MAX_MILLIVOLT:g} mV; the file is damaged")
    return quantize(values, MICROVOLT_GAIN, overwrite=True)


CHAPMAN_CSV = Format("chapman-csv", "Chapman-Shaoxing CSV: 12 columns of uV at 500 Hz", _matches, _read)
