"""CSV tables of published datasets, and of the package."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Generic, TypeVar

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.core.sources.source_files import MAX_FILE_BYTES

Row = TypeVar("Row")


def package_table(name: str) -> list[dict[str, str]]:
    """Read a CSV table that comes with the package, compressed if its name ends in ``.gz``."""
    data = files("clocs.datasets").joinpath("tables", name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def find_table(source: Source, *file_names: str) -> str | None:
    """Return the path of the first of these files that the source holds, in any folder; None without one.

    Of several files with one name, the one nearest to the root is used, and an unpacked one rather than one in a zip.
    """
    found: dict[str, str] = {}
    for name in source.names():
        file = name.rsplit("/", 1)[-1]
        if file == file_names[0] and not is_packed(name):
            return name  # without listing the rest, which may be millions of files
        if file in file_names and (file not in found or is_packed(found[file]) > is_packed(name)):
            found[file] = name
    return next((found[name] for name in file_names if name in found), None)


def is_packed(name: str) -> bool:
    """Return whether a file is in a zip archive within its source."""
    return ".zip/" in name.lower()


def need_table(source: Source, *file_names: str) -> str:
    """Return the path of the first of these files that the source holds. Raise a ``FormatError`` without one."""
    table = find_table(source, *file_names)
    if table is None:
        raise FormatError(f"{source.path}: {file_names[0]} with the labels is missing. Download the dataset again.")
    return table


def parse_flag(text: str) -> str:
    """Return ``true`` or ``false`` for a flag that a table writes as a word or number; empty if it is absent."""
    plain = text.strip().lower().removesuffix(".0")
    return "true" if plain in ("true", "1") else "false" if plain in ("false", "0") else ""


def order_of(values: Sequence[str]) -> list[str]:
    """Return the position of each value among all in sorted order, from 1; empty for empty values.

    The order of dates serves splits in time.
    """
    order = ["" for _ in values]
    for position, (_, number) in enumerate(sorted((value, number) for number, value in enumerate(values) if value), 1):
        order[number] = str(position)
    return order


class RowsByKey(Generic[Row]):
    """Rows of a large table, joined to another table by a key.

    Rows are read until the key is found, so two tables in the same order need no memory. A table in another order is
    kept until its rows are used.

    Args:
        rows: Pairs of key and row. Of several rows with one key, the last one read counts.
    """

    def __init__(self, rows: Iterator[tuple[str, Row]]) -> None:
        self._rows = rows
        self._waiting: dict[str, Row] = {}

    def pop(self, key: str) -> Row | None:
        """Return the row of a key and forget it; None without such a row."""
        while key not in self._waiting:
            pair = next(self._rows, None)
            if pair is None:
                return None
            self._waiting[pair[0]] = pair[1]
        return self._waiting.pop(key)


def read_csv(
    source: Source, name: str, columns: tuple[str, ...] = (), needed: tuple[str, ...] = ()
) -> Iterator[dict[str, str]]:
    """Read the rows of a published CSV table.

    Args:
        source: Source that holds the table.
        name: Path of the table within the source.
        columns: Column names of a table without a header line.
        needed: Columns that every row must have.

    Yields:
        Each row, as values by column.

    Raises:
        FormatError: The table is damaged or lacks a needed column.
    """
    for line, row in numbered_rows(source, name, columns):
        absent = [column for column in needed if row.get(column) is None]
        if absent or None in row:
            reason = f"has no {', '.join(absent)}" if absent else "has more values than the table has columns"
            raise FormatError(f"{name}: differs from the published table: line {line} {reason}")
        yield {column: value or "" for column, value in row.items()}


def numbered_rows(source: Source, name: str, columns: tuple[str, ...] = ()) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows of a CSV table, each with the line number of its end, counted from 1. It may be ``.csv.gz``."""
    last = 0
    try:
        data = _unpacked(source.read(name), name)
        if b"\0" in data:
            raise FormatError(f"{name}: contains NUL bytes, so it is not a text file. Save it as CSV in UTF-8.")
        text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")  # decoded in parts
        rows = csv.DictReader(text, fieldnames=columns or None, strict=True)
        titles = [column.strip() for column in rows.fieldnames or () if column.strip()]
        repeated = sorted({column for column in titles if titles.count(column) > 1})
        if repeated:
            raise FormatError(f"{name}: two columns are named '{repeated[0]}'. Remove one of them.")
        last = rows.line_num
        for row in rows:
            last = rows.line_num
            yield last, row
    except csv.Error as error:
        raise FormatError(
            f"{name}: line {last + 1} has an unclosed quote, or text after a closing quote ({error}). Close the quote; "
            'write a quote within a value as ""'
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{name}: not a readable CSV table: {error}. Save it as CSV in UTF-8.") from error


def _unpacked(data: bytes, name: str) -> bytes:
    if not name.endswith(".gz"):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{name}: not a readable gzip file: {error}. Download it again.") from error
    if len(text) > MAX_FILE_BYTES:
        raise FormatError(f"{name}: larger than {MAX_FILE_BYTES >> 20} MiB. Split it before reading.")
    return text
