"""Write CSV: metadata in ``#`` lines, a line of column names, then one row per sample with time and millivolts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from clocs.core.csv_cells import escape_cell, escape_json
from clocs.core.recording import Recording, missing_value
from clocs.formats.clocs_csv import MAGIC, TIME
from clocs.formats.writing import EncodedRecording, Writer


def _encode(recording: Recording, stem: str) -> EncodedRecording:
    import pyarrow as pa
    from pyarrow.csv import WriteOptions, write_csv

    missing = recording.digital == missing_value(recording.digital.dtype)
    values = (recording.digital - recording.baseline[:, None].astype(np.float64)) / recording.gain[:, None]
    columns = [pa.array(np.arange(recording.num_samples) / recording.sampling_rate)]
    columns += [pa.array(row, mask=mask) for row, mask in zip(values, missing, strict=True)]
    body = io.BytesIO()
    write_csv(
        pa.table(columns, [str(number) for number in range(len(columns))]), body, WriteOptions(include_header=False)
    )
    return EncodedRecording({".csv": _header(recording).encode() + body.getvalue()})


def _header(recording: Recording) -> str:
    """Return the metadata as ``# key: JSON`` lines, then the names of the columns."""
    names = io.StringIO()
    leads = [escape_cell(" ".join(lead.split())) for lead in recording.leads]
    csv.writer(names, lineterminator="\n").writerow([TIME, *leads])
    lines = [
        f"# {key}: {escape_json(json.dumps(value, ensure_ascii=False))}\n" for key, value in _header_fields(recording)
    ]
    return f"{MAGIC}\n{''.join(lines)}{names.getvalue()}"


def _header_fields(recording: Recording) -> Iterator[tuple[str, Any]]:
    yield "sampling_rate", recording.sampling_rate
    yield "num_samples", recording.num_samples
    yield "unit", recording.unit
    yield "gain", recording.gain.tolist()
    yield "baseline", recording.baseline.tolist()
    optional = {
        "patient": recording.patient_id,
        "age": recording.age,
        "sex": recording.sex,
        "labels": recording.labels,
        "episodes": [[episode.start, episode.end, episode.label] for episode in recording.episodes],
        "derived": [lead for lead in recording.leads if lead in recording.provenance.derived_leads],
    }
    yield from ((key, value) for key, value in optional.items() if value not in ("", None, (), []))


CSV = Writer("csv", "CSV: time in seconds, a column of millivolts a lead", (".csv",), _encode)
