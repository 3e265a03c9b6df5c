"""Splits of a store by the values of a column: published folds, and lists of recordings or patients."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash
from clocs.datasets import DATASETS
from clocs.store.extra_columns import as_type, match_values
from clocs.store.reader import StoreLike, StoreReader, open_reader
from clocs.store.splits import (
    PARTS,
    Split,
    check_leaks,
    check_split_name,
    count_parts,
    has_frames,
    save_split,
    warn_of_empty_parts,
)

MAX_LISTED_VALUES: Final = 20
"""Maximum number of values in a message, and in the metadata of a split. Longer lists are kept as a hash."""
ID_COLUMNS: Final = ("record_id", "patient_id")
PART_NAMES: Final = {
    **{name: name for name in PARTS[:3]},
    **dict.fromkeys(("val", "valid", "dev"), "validation"),
    **dict.fromkeys(("", "unused"), "unused"),
}
"""Part of each name that a table may have."""


def split_by(
    store: StoreLike,
    column: str,
    *,
    train: Any,
    validation: Any = (),
    test: Any = (),
    name: str = "default",
    allow_duplicates: bool = False,
) -> Split:
    """Split the recordings of a store by the values of a column, and save the split.

    The column may hold published folds. For lists of recordings or patients, it is ``record_id`` or ``patient_id``.
    Recordings with other values are unused. A split that leaks is rejected and not saved.

    Args:
        store: A store or its folder.
        column: Name of a column.
        train: Value or values of the train part.
        validation: Value or values of the validation part; empty for no such part.
        test: Value or values of the test part; empty for no such part.
        name: Name of the split. An existing split with this name must be equal.
        allow_duplicates: True to allow identical signals of different patients in different parts, to
            follow a published protocol. The split records this, and the number of recordings with such a signal.

    Returns:
        The saved split.

    Raises:
        ConfigError: The column is unknown, a value is in two parts, or no recording has a value of a part.
        LeakError: A patient or signal is in two parts. The message names both recordings.

    Example:
        >>> signals = np.random.default_rng(0).normal(size=(4, 1, 5000))
        >>> folds = {"fold": [1, 2, 3, None]}
        >>> store = clocs.Store.from_arrays("store", signals, sampling_rate=500, leads=["II"], table=folds)
        >>> split = clocs.split_by(store, "fold", train=1, validation=2, test=3)
        >>> split.metadata["records"]
        {'test': 1, 'train': 1, 'unused': 1, 'validation': 1}
        >>> clocs.split_by(store, "record_id", train=["0000000", "0000001"], test="0000003", name="list").parts
        array([0, 0, 3, 2], dtype=int8)
    """
    values = {part: _listed(given) for part, given in zip(PARTS[:3], (train, validation, test), strict=True)}
    return _split_by_values(open_reader(store), column, values, name, allow_duplicates)


def split_from_table(store: StoreLike, table: Any, *, name: str = "default", allow_duplicates: bool = False) -> Split:
    """Split the recordings of a store by a table that lists the part of each recording or patient.

    Recordings that are not listed are unused. A split that leaks is rejected and not saved.

    Args:
        store: A store or its folder.
        table: CSV file, data frame or mapping with a column ``record_id`` or ``patient_id``, and a column ``part``:
            ``train``, ``validation`` (also ``val``, ``valid``, ``dev``), ``test`` or empty.
        name: Name of the split. An existing split with this name must be equal.
        allow_duplicates: True to allow identical signals in different parts, see :func:`split_by`.

    Returns:
        The saved split.

    Raises:
        ConfigError: The table cannot be read, lists an id in two parts, or lists no recording of the store.
        LeakError: A patient or signal is in two parts. The message names both recordings.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 6})
        >>> table = {"patient_id": ["P0000000", "P0000001"], "part": ["train", "test"]}
        >>> clocs.split_from_table(store, table).parts
        array([0, 0, 2, 2, 3, 3], dtype=int8)
    """
    column, values = _read_table(table)
    return _split_by_values(open_reader(store), column, values, name, allow_duplicates)


def split_published(
    store: StoreLike, published: str, *, name: str | None = None, allow_duplicates: bool = False
) -> Split:
    """Make a published split of a store's dataset, such as the folds of PTB-XL.

    Args:
        store: A store or its folder.
        published: Name of a published split of the dataset, see ``clocs data info DATASET``.
        name: Name of the split; by default that of the published split.
        allow_duplicates: True to allow identical signals in different parts, see :func:`split_by`.

    Returns:
        The saved split.

    Raises:
        ConfigError: The dataset has no such split, or no recording of a part is in the store.
        LeakError: A patient or signal is in two parts. The message names both recordings.

    Example:
        >>> sorted(clocs.DATASETS.get("ptbxl").splits)
        ['folds']
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 6})
        >>> clocs.split_published(store, "folds")
        Traceback (most recent call last):
        clocs.core.errors.ConfigError: Dataset 'synthetic' has no published split 'folds'. Its splits: none.
    """
    opened = open_reader(store)
    dataset = opened.manifest.dataset["name"]
    splits = DATASETS.get(dataset).splits if dataset in DATASETS.names() else {}
    if published not in splits:
        known = ", ".join(splits) or "none"
        raise ConfigError(f"Dataset '{dataset}' has no published split '{published}'. Its splits: {known}.")
    split = splits[published]
    about = {"published": published}
    return _split_by_values(opened, split.column, split.values(), name or published, allow_duplicates, about)


def _split_by_values(
    store: StoreReader,
    column: str,
    values: Mapping[str, list[Any]],
    name: str,
    allow_duplicates: bool,
    about: Mapping[str, Any] | None = None,
) -> Split:
    """Make a split from the values of each part, check it for leaks and save it."""
    check_split_name(name)
    parts = _parts(store, column, values)
    metadata = {
        "store": store.sha256,
        "by": {"column": column, **{part: _described(given) for part, given in values.items()}},
        **count_parts(store, parts, allow_duplicates),
        **(about or {}),
    }
    check_leaks(store, Split(name, "", metadata, parts), allow_duplicates=allow_duplicates)
    warn_of_empty_parts(metadata, [part for part, given in values.items() if given])
    return save_split(store, name, parts, metadata)


def _described(values: list[Any]) -> Any:
    texts = [str(value) for value in values]
    return texts if len(texts) <= MAX_LISTED_VALUES else {"values": len(texts), "sha256": content_hash(sorted(texts))}


def _parts(store: StoreReader, column: str, values: Mapping[str, list[Any]]) -> npt.NDArray[np.int8]:
    """Return the part of each recording, as an index into ``PARTS``, (N,)."""
    cells = store.table(column).column(0)
    parts = np.full(len(store), PARTS.index("unused"), np.int8)
    for index, (part, given) in enumerate(values.items()):
        members = match_values(column, cells, given)
        if given and not members.any():
            raise ConfigError(f"No recording of the {part} part: column '{column}' has {_known_values(column, cells)}.")
        if (members & (parts < index)).any():
            raise ConfigError(f"Values of column '{column}' are in two parts. Put each value into one part.")
        if column in ID_COLUMNS:
            _warn_of_unknown(column, cells, part, given)
        parts[members] = index
    parts[~has_frames(store)] = PARTS.index("unused")
    return parts


def _warn_of_unknown(column: str, cells: pa.ChunkedArray, part: str, ids: list[Any]) -> None:
    """Warn of ids that the store lacks. The message gives no patient id, because it is logged."""
    count = len(ids) - int(pc.is_in(as_type(column, ids, cells.type), pc.unique(cells)).to_numpy(False).sum())
    if count:
        warnings.warn(
            f"{count} of {len(ids)} values of column '{column}' in the {part} part are not in the store.", stacklevel=5
        )


def _known_values(column: str, cells: pa.ChunkedArray) -> str:
    if column in ID_COLUMNS:
        return "none of the given ids"
    found = sorted(map(str, pc.unique(pc.list_flatten(cells) if pa.types.is_list(cells.type) else cells).to_pylist()))
    more = f" and {len(found) - MAX_LISTED_VALUES} more" if len(found) > MAX_LISTED_VALUES else ""
    return ", ".join(found[:MAX_LISTED_VALUES]) + more


def _listed(values: Any) -> list[Any]:
    is_single = isinstance(values, str) or not isinstance(values, Iterable)
    return [values] if is_single else [value.item() if isinstance(value, np.generic) else value for value in values]


def parse_values(text: str, column: str, kind: pa.DataType) -> list[str]:
    """Parse the values of a part as a command gives them.

    Args:
        text: Values separated by commas; ``1-8`` stands for 1 to 8 in a column of integers. ``@FILE`` reads a text file
            with one value a line, or a CSV file with a column of this name.
        column: Name of the column.
        kind: Type of the column.

    Returns:
        The values as text.

    Raises:
        ConfigError: The file cannot be read.
    """
    if text.startswith("@"):
        return _read_values(Path(text[1:]), column)
    values = [value.strip() for value in text.split(",") if value.strip()]
    ranges = [re.fullmatch(r"(\d+)-(\d+)", value) if pa.types.is_integer(kind) else None for value in values]
    return [
        each
        for value, found in zip(values, ranges, strict=True)
        for each in (map(str, range(int(found[1]), int(found[2]) + 1)) if found else [value])
    ]


def _read_values(path: Path, column: str) -> list[str]:
    rows = _read_csv(path)
    header = rows[0] if rows else []
    if column in header:
        number = header.index(column)
        return [row[number] for row in rows[1:] if len(row) > number and row[number]]
    if any(len(row) > 1 for row in rows):
        raise ConfigError(f"{path} has no column '{column}'. Name the column, or write one value a line.")
    return [row[0] for row in rows if row and row[0]]


def _read_csv(path: Path) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return [[cell.strip() for cell in row] for row in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read as a list or CSV table: {error}") from error


def _read_table(table: Any) -> tuple[str, dict[str, list[str]]]:
    """Return the column of ids of a table, and the ids of each part."""
    if isinstance(table, str | os.PathLike):
        header, *rows = _read_csv(Path(table)) or [[]]
        filled = [[*row, *[""] * (len(header) - len(row))] for row in rows if any(row)]
        columns = {name: tuple(row[number] for row in filled) for number, name in enumerate(header)}
    else:
        columns = {str(name): tuple(table[name]) for name in getattr(table, "columns", table)}
    column = next((name for name in ID_COLUMNS if name in columns), None)
    if column is None or "part" not in columns:
        raise ConfigError(
            f"A table of parts needs the columns 'record_id' or 'patient_id', and 'part'. It has: {', '.join(columns)}."
        )
    values: dict[str, list[str]] = {part: [] for part in PARTS}
    for each, part in zip(columns[column], columns["part"], strict=True):
        key = str(part or "").strip().lower()
        if key not in PART_NAMES:
            raise ConfigError(f"Unknown part '{part}' in the table. Use train, validation or test, or leave it empty.")
        values[PART_NAMES[key]].append(str(each))
    return column, {part: ids for part, ids in values.items() if part != "unused"}
