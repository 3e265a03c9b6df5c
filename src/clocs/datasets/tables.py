"""Tables that lie beside a user's own archive: one about its recordings, one about its patients."""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable, Container, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from clocs.core.errors import ConfigError, FormatError
from clocs.core.pseudonyms import PatientKey, is_unknown_patient, normalize_patient_id
from clocs.core.sources import open_source, strip_extension
from clocs.datasets.dataset import numbered_rows
from clocs.formats.demographics import MAX_AGE, parse_age, parse_sex

RECORDING_COLUMNS = ("file", "record_id", "patient_id", "site", "age", "sex", "labels")
PATIENT_COLUMNS = ("patient_id", "site", "age", "sex", "labels")
SHOWN_LINES = 5
UNDERSTOOD: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "age": (parse_age, f"a number of years up to {MAX_AGE:g}"),
    "sex": (parse_sex, "m, f, male or female"),
}
"""By column: how it is read, and what it takes."""


class Row(NamedTuple):
    """A row of a table."""

    line: int
    """Where it stands in its file."""
    fields: dict[str, str]


Rows = dict[str, Row]


class RecordingTable:
    """What a table says about recordings, and which of its rows were asked for; nothing without a table."""

    def __init__(self, path: Path | None) -> None:
        self._name = path.name if path else ""
        self._rows = _read(path, RECORDING_COLUMNS) if path else {}
        self._forget_nobody()
        self.patients = {row.fields.get("patient_id") for row in self._rows.values()}
        self._folders: dict[str, str] = {}
        """Of the rows asked for: the folder of the recording that each is about."""

    def _forget_nobody(self) -> None:
        """Else all who are unknown would be one patient: positives of one another, and of one part of a split."""
        nobody = [row for row in self._rows.values() if is_unknown_patient(row.fields.get("patient_id", ""))]
        for row in nobody:
            row.fields["patient_id"] = ""
        if nobody:
            warnings.warn(
                f"table {self._name}: {len(nobody)} rows have a word for an unknown patient (unknown, n/a, ...), the "
                f"first on line {nobody[0].line}; each is taken as if it had no patient_id",
                stacklevel=2,
            )

    def about(self, recording: str) -> dict[str, str]:
        """The row of the recording at a path within its source; empty where there is none."""
        key = self._key(recording)
        if not key:
            return {}
        folder = recording.rpartition("/")[0]
        other = self._folders.setdefault(key, folder)
        if other != folder and key != recording:
            raise ConfigError(
                f"table {self._name}: line {self._rows[key].line} says '{key}', which is in '{other or '.'}' "
                f"and in '{folder or '.'}'. Name such files by their paths within the source"
            )
        return self._rows[key].fields

    def check_some_row_is_used(self, recordings: Iterable[str], place: str) -> None:
        """Before anything is read: a table of another archive, or with other paths, leaves all patients unknown."""
        first = ""
        for name in recordings if self._rows else ():
            if self._key(name):
                return
            first = first or name
        if first:
            key, row = next(iter(self._rows.items()))
            raise ConfigError(
                f"table {self._name}: no row is about a recording of {place}. Line {row.line} says '{key}'; a "
                f"recording there is '{first}'. The column 'file' takes a recording's path within the source, with or "
                "without its ending, or its name without ending"
            )

    def warn_of_unused(self) -> None:
        """Once all recordings were asked for."""
        lines = [str(row.line) for key, row in self._rows.items() if key not in self._folders]
        if lines:
            more = f" and {len(lines) - SHOWN_LINES} more" if len(lines) > SHOWN_LINES else ""
            warnings.warn(
                f"table {self._name}: {len(lines)} of {len(self._rows)} rows are about no recording of the source, "
                f"on lines {', '.join(lines[:SHOWN_LINES])}{more}",
                stacklevel=2,
            )

    def _key(self, recording: str) -> str:
        """What the recording's row calls it."""
        stem = strip_extension(recording)
        return next((key for key in (recording, stem, stem.rsplit("/", 1)[-1]) if key in self._rows), "")


def about_patient(patient: str, path: Path) -> dict[str, str]:
    """A patient's row in the table at ``path``; empty where there is none."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        raise _missing(path) from None
    row = _patients(str(path), changed).get(normalize_patient_id(patient).upper())
    return row.fields if row else {}


def no_row_is_used(path: Path, key: PatientKey, pseudonyms: Container[str]) -> bool:
    """Whether nobody of a store is in a table of patients: of another archive, or with other ids."""
    rows = _patients(str(path), path.stat().st_mtime_ns)
    return not any(key.patient(patient) in pseudonyms for patient in rows)


def labels_of(row: dict[str, str]) -> tuple[str, ...]:
    """Labels of a row, which stand in one column with ``;`` between."""
    return tuple(label.strip() for label in (row.get("labels") or "").split(";") if label.strip())


def hash_of(path: Path) -> str:
    """SHA-256 of a table's bytes."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise _missing(path) from None


@functools.lru_cache(maxsize=2)
def _patients(path: str, _changed: int) -> Rows:
    """By ids as they are hashed: in capitals."""
    found: Rows = {}
    for patient, row in _read(Path(path), PATIENT_COLUMNS).items():
        other = found.setdefault(patient.upper(), row)
        if other.fields | {"patient_id": ""} != row.fields | {"patient_id": ""}:
            raise ConfigError(
                f"table {Path(path).name}: lines {other.line} and {row.line} are about one patient, written in another "
                "case, and say different things; leave one of them"
            )
    return found


def _read(path: Path, columns: tuple[str, ...]) -> Rows:
    """Rows by the first of the columns, which every row needs; two about one thing must say the same."""
    if not path.is_file():
        raise _missing(path)
    try:
        rows = [_row(path, line, fields) for line, fields in numbered_rows(open_source(path.parent), path.name)]
    except FormatError as error:  # of the user's table, not of a recording
        raise ConfigError(f"table {error}") from error
    rows = [row for row in rows if any(row.fields.values())]  # spreadsheets leave empty ones at the end
    if not rows:
        raise ConfigError(f"table {path.name}: it has no rows; leave it out, or fill it")
    unknown = sorted({column for row in rows for column in row.fields} - set(columns))
    lacking = [row.line for row in rows if not row.fields.get(columns[0])]
    other_signs = [sign for sign in (";", "\t") if any(sign in column for column in unknown)]
    if other_signs:
        raise ConfigError(f"table {path.name}: its columns are separated by {other_signs[0]!r}; save it with commas")
    if unknown or lacking:
        raise ConfigError(
            f"table {path.name}: every row needs '{columns[0]}'; other columns may be {', '.join(columns[1:])}"
            + (f"; unknown here: {', '.join(map(repr, unknown))}" if unknown else f"; missing on line {lacking[0]}")
        )
    _warn_of_case(path, rows)
    _warn_of_unread(path, rows)
    found: Rows = {}
    for row in rows:
        other = found.setdefault(row.fields[columns[0]], row)
        if other.fields != row.fields:
            raise ConfigError(
                f"table {path.name}: lines {other.line} and {row.line} have the same '{columns[0]}' and say different "
                "things; leave one of them"
            )
    return found


def _missing(path: Path) -> ConfigError:
    return ConfigError(f"table {path}: no such file")


def _row(path: Path, line: int, fields: dict[str, str]) -> Row:
    """Without blanks around values, which no one sees; ids in one way of writing letters."""
    if None in fields:
        raise ConfigError(f"table {path.name}: line {line} has more values than the table has columns")
    plain = {column.strip(): (value or "").strip() for column, value in fields.items()}
    if not plain.get("", "nothing"):
        del plain[""]  # spreadsheets leave empty columns at the end
    if "patient_id" in plain:
        plain["patient_id"] = normalize_patient_id(plain["patient_id"])
    return Row(line, plain)


def _warn_of_case(path: Path, rows: list[Row]) -> None:
    """Lines are named, not patients: warnings end up in logs."""
    lines = {row.fields.get("patient_id", ""): row.line for row in rows}
    alike = [pair for pair in pairwise(sorted(lines, key=str.upper)) if pair[0].upper() == pair[1].upper()]
    if alike:
        one, other = sorted(lines[name] for name in alike[0])
        warnings.warn(
            f"table {path.name}: the patients of lines {one} and {other} differ in case alone; with a key they are "
            "one, without one they are two",
            stacklevel=2,
        )


def _warn_of_unread(path: Path, rows: list[Row]) -> None:
    """Of ages and sexes that say something and are not understood."""
    for column, (read, takes) in UNDERSTOOD.items():
        told = [(row.line, row.fields.get(column, "")) for row in rows]
        lines = [line for line, value in told if value and not is_unknown_patient(value) and read(value) is None]
        if lines:
            warnings.warn(
                f"table {path.name}: {len(lines)} rows have in '{column}' what is not {takes}, the first on line "
                f"{lines[0]}; it is left out",
                stacklevel=2,
            )
