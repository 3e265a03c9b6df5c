"""CSV tables of published datasets, and of the package."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from importlib.resources import files

from clocs.core.errors import FormatError
from clocs.core.sources import Source


def package_table(name: str) -> list[dict[str, str]]:
    """Read a CSV table that comes with the package, compressed if its name ends in ``.gz``."""
    data = files("clocs.datasets").joinpath("tables", name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def find_table(source: Source, *file_names: str) -> str | None:
    """Return the path of the first of these files that the source holds, in any folder; None without one."""
    found = {name.rsplit("/", 1)[-1]: name for name in source.names() if name.endswith(file_names)}
    return next((found[name] for name in file_names if name in found), None)


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
    """Read the rows of a CSV table, each with the line number of its end, counted from 1."""
    last = 0
    try:
        text = source.read(name).decode("utf-8-sig")
        if "\0" in text:
            raise FormatError(f"{name}: contains NUL bytes, so it is not a text file. Save it as CSV in UTF-8.")
        rows = csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns or None, strict=True)
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
