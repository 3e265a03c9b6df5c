"""Tables of a user's own archive: one of recordings, one of patients."""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from clocs.core.column_names import check_column_names
from clocs.core.errors import ConfigError, FormatError
from clocs.core.privacy.pseudonyms import PatientKey, is_unknown_patient, normalize_patient_id
from clocs.core.sources.source import open_source
from clocs.core.sources.source_files import strip_extension
from clocs.datasets.csv_tables import numbered_rows
from clocs.datasets.redaction import column_identity
from clocs.formats.demographics import MAX_AGE, parse_acquired, parse_age, parse_sex

RECORDING_COLUMNS = ("file", "record_id", "patient_id", "site", "age", "sex", "labels", "acquired")
PATIENT_COLUMNS = ("patient_id", "site", "age", "sex", "labels")
MAX_LISTED_LINES = 5
COLUMN_PARSERS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "age": (parse_age, f"a number of years up to {MAX_AGE:g}"),
    "sex": (parse_sex, "m, f, male or female"),
    "acquired": (parse_acquired, "a date and time such as 2020-02-29 08:30:00"),
}
"""Parser of a column, and a description of its valid values."""


class Row(NamedTuple):
    """A row of a table, with its line number."""

    line: int
    """Line number in the file, from 1."""
    fields: dict[str, str]
    """Values by column."""


Rows = dict[str, Row]


class RecordingTable:
    """A table of recordings that tracks which rows were used. Without a path it is empty.

    Args:
        path: The CSV file.
        has_key: True to drop extra columns that may identify a person.
    """

    def __init__(self, path: Path | None, has_key: bool = False) -> None:
        self._name = path.name if path else ""
        self._rows = _read(path, RECORDING_COLUMNS, has_key) if path else {}
        self._clear_placeholder_patients()
        self.patients = {row.fields.get("patient_id") for row in self._rows.values()}
        self._folders: dict[str, str] = {}
        """Folder of the recording that each used row describes."""

    def _clear_placeholder_patients(self) -> None:
        """Clear ids such as "unknown", so that recordings without a patient are not joined to one patient."""
        unknown = [row for row in self._rows.values() if is_unknown_patient(row.fields.get("patient_id", ""))]
        for row in unknown:
            row.fields["patient_id"] = ""
        if unknown:
            warnings.warn(
                f"table {self._name}: {len(unknown)} rows have a placeholder (unknown, n/a, ...) as patient_id, the "
                f"first on line {unknown[0].line}. They are read as rows without a patient_id.",
                stacklevel=2,
            )

    def row_for(self, recording: str) -> dict[str, str]:
        """Return the row of the recording with this path within the source; empty without one."""
        key = self._key(recording)
        if not key:
            return {}
        folder = recording.rpartition("/")[0]
        other = self._folders.setdefault(key, folder)
        if other != folder and key != recording:
            raise ConfigError(
                f"table {self._name}: line {self._rows[key].line} names '{key}', which exists in '{other or '.'}' "
                f"and in '{folder or '.'}'. Write the path within the source."
            )
        return self._rows[key].fields

    def check_any_row_matches(self, recordings: Iterable[str], source: str) -> None:
        """Raise an error if no row matches a recording, as with a table of another archive or other paths."""
        first = ""
        for name in recordings if self._rows else ():
            if self._key(name):
                return
            first = first or name
        if first:
            key, row = next(iter(self._rows.items()))
            raise ConfigError(
                f"table {self._name}: no row matches a recording of {source}. Line {row.line} names '{key}', a "
                f"recording is '{first}'. Write in the column 'file' the path within the source, with or without "
                "extension, or the file name without extension."
            )

    def warn_of_unused(self) -> None:
        """Warn of unused rows, after all recordings were looked up."""
        lines = [str(row.line) for key, row in self._rows.items() if key not in self._folders]
        if lines:
            more = f" and {len(lines) - MAX_LISTED_LINES} more" if len(lines) > MAX_LISTED_LINES else ""
            warnings.warn(
                f"table {self._name}: {len(lines)} of {len(self._rows)} rows match no recording of the source: "
                f"lines {', '.join(lines[:MAX_LISTED_LINES])}{more}",
                stacklevel=2,
            )

    def _key(self, recording: str) -> str:
        """Return the name of a recording in the table; empty without a row."""
        stem = strip_extension(recording)
        return next((key for key in (recording, stem, stem.rsplit("/", 1)[-1]) if key in self._rows), "")


def patient_row(patient: str, path: Path) -> dict[str, str]:
    """Return the row of a patient in the table at ``path``; empty without one."""
    try:
        modified = path.stat().st_mtime_ns
    except OSError:
        raise _missing(path) from None
    row = _patients(str(path), modified).get(normalize_patient_id(patient).upper())
    return row.fields if row else {}


def has_no_known_patient(path: Path, key: PatientKey, pseudonyms: Container[str]) -> bool:
    """Return whether no row of a patient table matches a patient of a store."""
    rows = _patients(str(path), path.stat().st_mtime_ns)
    return not any(key.patient(patient) in pseudonyms for patient in rows)


def parse_labels(row: dict[str, str]) -> tuple[str, ...]:
    """Return the labels of a row, which are separated by ``;``."""
    return tuple(label.strip() for label in (row.get("labels") or "").split(";") if label.strip())


def extra_values(row: dict[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return the values of a row in columns that are not known. Empty values are left out."""
    return {column: value for column, value in row.items() if value and column not in known}


def table_sha256(path: Path) -> str:
    """Return the SHA-256 of a table."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise _missing(path) from None


@functools.lru_cache(maxsize=2)
def _patients(path: str, _modified: int) -> Rows:
    """Read a patient table by upper-case ids, which is how ids are hashed."""
    by_id: Rows = {}
    for patient, row in _read(Path(path), PATIENT_COLUMNS, has_key=True).items():
        other = by_id.setdefault(patient.upper(), row)
        if other.fields | {"patient_id": ""} != row.fields | {"patient_id": ""}:
            raise ConfigError(
                f"table {Path(path).name}: lines {other.line} and {row.line} have the same patient_id except for "
                "case, but different values. Remove one of them."
            )
    return by_id


def _read(path: Path, columns: tuple[str, ...], has_key: bool) -> Rows:
    """Read the rows of a table by the first of the columns, which every row needs and which must be unique.

    With a key, extra columns that may identify a person are dropped.
    """
    if not path.is_file():
        raise _missing(path)
    try:
        rows = [_row(path, line, fields) for line, fields in numbered_rows(open_source(path.parent), path.name)]
    except FormatError as error:  # the table is an option, not a recording
        raise ConfigError(f"table {error}") from error
    rows = [row for row in rows if any(row.fields.values())]  # spreadsheets append empty rows
    if not rows:
        raise ConfigError(f"table {path.name}: it has no rows. Fill it, or omit the option.")
    extra = sorted({column for row in rows for column in row.fields} - set(columns))
    incomplete = [row.line for row in rows if not row.fields.get(columns[0])]
    separators = [sign for sign in (";", "\t") if any(sign in column for column in extra)]
    if separators:
        raise ConfigError(f"table {path.name}: its columns are separated by {separators[0]!r}. Save it with commas.")
    if incomplete:
        raise ConfigError(
            f"table {path.name}: every row needs '{columns[0]}'; known columns are {', '.join(columns[1:])}. Missing "
            f"on line {incomplete[0]}."
        )
    try:
        check_column_names(extra)
    except ConfigError as error:
        raise ConfigError(f"table {path.name}: {error} Known columns: {', '.join(columns)}.") from error
    if has_key:
        _drop_identifying_columns(path, rows, extra)
    _warn_of_case(path, rows)
    _warn_of_unparsed(path, rows)
    by_key: Rows = {}
    for row in rows:
        other = by_key.setdefault(row.fields[columns[0]], row)
        if other.fields != row.fields:
            raise ConfigError(
                f"table {path.name}: lines {other.line} and {row.line} have the same '{columns[0]}' but different "
                "values. Remove one of them."
            )
    return by_key


def _missing(path: Path) -> ConfigError:
    return ConfigError(f"table {path}: no such file. Check the path.")


def _row(path: Path, line: int, fields: dict[str, str]) -> Row:
    """Return a row without surrounding blanks, with a normalized patient id."""
    if None in fields:
        raise ConfigError(
            f"table {path.name}: line {line} has more values than the table has columns. Quote values with commas."
        )
    stripped = {column.strip(): (value or "").strip() for column, value in fields.items()}
    if not stripped.get("", "nothing"):
        del stripped[""]  # spreadsheets append empty columns
    if "patient_id" in stripped:
        stripped["patient_id"] = normalize_patient_id(stripped["patient_id"])
    return Row(line, stripped)


def _drop_identifying_columns(path: Path, rows: list[Row], extra: list[str]) -> None:
    """Remove extra columns that may identify a person, with a warning that names no value."""
    for column in extra:
        ids = [[row.fields.get(name, "") for name in ("patient_id", "record_id", "file")] for row in rows]
        reason = column_identity(column, [row.fields[column] for row in rows], ids)
        if reason:
            for row in rows:
                del row.fields[column]
            warnings.warn(
                f"table {path.name}: column '{column}' is left out, because {reason}. Rename it, or remove these "
                "values, if they identify no one.",
                stacklevel=2,
            )


def _warn_of_case(path: Path, rows: list[Row]) -> None:
    """Warn of patient ids that differ only in case. The message names lines, not patients, because it is logged."""
    lines = {row.fields.get("patient_id", ""): row.line for row in rows}
    same = [pair for pair in pairwise(sorted(lines, key=str.upper)) if pair[0].upper() == pair[1].upper()]
    if same:
        one, other = sorted(lines[name] for name in same[0])
        warnings.warn(
            f"table {path.name}: the patient ids of lines {one} and {other} differ only in case. With a key they are "
            "one patient, without a key two.",
            stacklevel=2,
        )


def _warn_of_unparsed(path: Path, rows: list[Row]) -> None:
    """Warn of ages and sexes that cannot be parsed."""
    for column, (parse, valid) in COLUMN_PARSERS.items():
        values = [(row.line, row.fields.get(column, "")) for row in rows]
        lines = [line for line, value in values if value and not is_unknown_patient(value) and parse(value) is None]
        if lines:
            warnings.warn(
                f"table {path.name}: '{column}' of {len(lines)} rows is not {valid}, the first on line {lines[0]}. "
                "These values are ignored.",
                stacklevel=2,
            )
