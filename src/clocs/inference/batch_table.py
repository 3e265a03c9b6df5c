"""Table of classified recordings: one row per recording, as CSV, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from clocs.core.csv_cells import escape_cell
from clocs.core.errors import ConfigError
from clocs.core.stated_measurements import STATED_COLUMNS
from clocs.core.storage.files import atomic_file
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.report import Report, report_origin
from clocs.measurements.results import NAMES

TABLE_EXTENSIONS: Final = (".csv", ".parquet", ".arrow")
"""File extensions of tables of classified recordings."""


ROWS_PER_BATCH: Final = 4096
"""Minimum number of rows that are written at once."""
_PROBABILITY: Final = "probability_"
Rows = Sequence[Mapping[str, Any]]


def probability_column(name: str) -> str:
    """Return the column of a class."""
    return f"{_PROBABILITY}{name}"


def class_probabilities(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the classes of a row that have a probability, the most probable first."""
    found = {name: value for name, value in row.items() if name.startswith(_PROBABILITY) and value is not None}
    return sorted(
        ((name.removeprefix(_PROBABILITY), value) for name, value in found.items()), key=lambda item: -item[1]
    )


def table_schema(encoder: PretrainedEncoder, classifier: str | None) -> pa.Schema:
    """Return the columns of a table.

    Args:
        encoder: The encoder.
        classifier: Name of the only classifier. None: the table has the classes of all classifiers.
    """
    used = encoder.classifiers.values() if classifier is None else [encoder.classifier(classifier)]
    classes = dict.fromkeys(item.name for found in used for item in found.card.classes)
    text, number = pa.string(), pa.float64()
    return pa.schema(
        [
            *((name, text) for name in ("recording", "gate", "reason")),
            *((name, number) for name in (*NAMES, *STATED_COLUMNS)),
            ("regular", pa.bool_()),
            ("paced", pa.bool_()),
            ("num_beats", pa.int32()),
            *((name, text) for name in ("not_measured", "classifier", "leads", "prediction_set")),
            *((probability_column(name), number) for name in classes),
            *((name, text) for name in ("notes", *asdict(report_origin(encoder)))),
        ]
    )


def report_row(name: str, report: Report) -> dict[str, Any]:
    """Return the row of a recording.

    Args:
        name: Name of the recording.
        report: Its measurements and classes.
    """
    measured, found = report.measurements, report.classification
    row: dict[str, Any] = {"recording": name, "gate": report.gate, "reason": report.withheld}
    row |= {key: item.value for key, item in measured.values().items()}
    row |= {column: report.stated.values().get(name) for column, name in STATED_COLUMNS.items()}
    row |= {"regular": measured.regular, "paced": measured.paced, "num_beats": measured.num_beats}
    absent = [f"{key}: {item.reason}" for key, item in measured.values().items() if item.value is None]
    row["not_measured"] = "; ".join(absent)
    if found is not None:
        row |= {"classifier": found.classifier, "leads": " ".join(found.leads), "notes": "; ".join(found.notes)}
        row["prediction_set"] = found.set_statement
        row |= {probability_column(item.name): item.probability for item in found.classes}
    return row | asdict(report.origin)


def table_writer(path: Path) -> Callable[[pa.Schema, Iterable[Rows]], None]:
    """Return the function that writes a table of this file extension.

    Raises:
        ConfigError: The extension is none of these.
    """
    writers = {".csv": _csv_writer, ".parquet": _parquet_writer, ".arrow": pa.ipc.new_file}
    make = writers.get(path.suffix.lower())
    if make is None:
        known = ", ".join(TABLE_EXTENSIONS)
        raise ConfigError(f"{path.name}: unknown file extension. Classes are written as {known}.")

    def write(schema: pa.Schema, parts: Iterable[Rows]) -> None:
        with atomic_file(path) as file, make(file, schema) as writer:
            for rows in _gathered(parts):
                writer.write_table(_table(rows, schema, escape=path.suffix.lower() == ".csv"))

    return write


def _gathered(parts: Iterable[Rows]) -> Iterator[Rows]:
    """Join parts, because a table of many small parts is slow to open."""
    rows: list[Mapping[str, Any]] = []
    for part in parts:
        rows += part
        if len(rows) >= ROWS_PER_BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def _table(rows: Rows, schema: pa.Schema, *, escape: bool) -> pa.Table:
    """Return rows as a table. Text is escaped for spreadsheets if it is written as CSV."""

    def cell(value: Any) -> Any:
        return escape_cell(value) if escape and isinstance(value, str) else value

    columns = {name: [cell(row.get(name)) for row in rows] for name in schema.names}
    return pa.table(columns, schema)


def _csv_writer(file: Any, schema: pa.Schema) -> Any:
    from pyarrow import csv

    return csv.CSVWriter(file, schema)


def _parquet_writer(file: Any, schema: pa.Schema) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema)
