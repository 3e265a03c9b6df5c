"""Table of classified recordings: one row per recording, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from clocs.core.csv_cells import escape_cell
from clocs.core.errors import ConfigError
from clocs.core.files import atomic_file
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.report import Report, report_origin
from clocs.measurements.results import NAMES

TABLE_EXTENSIONS: Final = (".csv", ".parquet")
"""File extensions of tables of classified recordings."""


def probability_column(name: str) -> str:
    """Return the column of a class."""
    return f"probability_{name}"


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
            *((name, number) for name in NAMES),
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
    row |= {"regular": measured.regular, "paced": measured.paced, "num_beats": measured.num_beats}
    absent = [f"{key}: {item.reason}" for key, item in measured.values().items() if item.value is None]
    row["not_measured"] = "; ".join(absent)
    if found is not None:
        row |= {"classifier": found.classifier, "leads": " ".join(found.leads), "notes": " ".join(found.notes)}
        row["prediction_set"] = found.set_statement
        row |= {probability_column(item.name): item.probability for item in found.classes}
    return row | asdict(report.origin)


def table_writer(path: Path) -> Callable[[pa.Schema, Iterable[Sequence[Mapping[str, Any]]]], None]:
    """Return the function that writes a table of this file extension.

    Raises:
        ConfigError: The extension is neither .csv nor .parquet.
    """
    writers = {".csv": _csv_writer, ".parquet": _parquet_writer}
    make = writers.get(path.suffix.lower())
    if make is None:
        known = " or ".join(TABLE_EXTENSIONS)
        raise ConfigError(f"{path.name}: unknown file extension. Classes are written as {known}.")

    def write(schema: pa.Schema, parts: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        with atomic_file(path) as file, make(file, schema) as writer:
            for rows in parts:
                writer.write_table(_table(rows, schema, escape=path.suffix.lower() == ".csv"))

    return write


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, *, escape: bool) -> pa.Table:
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
