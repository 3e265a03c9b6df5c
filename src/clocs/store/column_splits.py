"""Splits of a store by the values of a column, such as published folds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.store.extra_columns import match_values
from clocs.store.reader import StoreLike, StoreReader, open_reader
from clocs.store.splits import PARTS, Split, check_leaks, check_split_name, has_frames, save_split

MAX_LISTED_VALUES = 20
"""Maximum number of values in a message."""


def split_by(
    store: StoreLike,
    column: str,
    *,
    train: Any,
    validation: Any = (),
    test: Any = (),
    name: str = "default",
) -> Split:
    """Split the recordings of a store by the values of a column, and save the split.

    Recordings with other values are unused. A split that leaks is refused and not saved.

    Args:
        store: A store or its folder.
        column: Name of a column, such as the fold.
        train: Value or values of the train part.
        validation: Value or values of the validation part; empty for no such part.
        test: Value or values of the test part; empty for no such part.
        name: Name of the split. An existing split with this name must be equal.

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
    """
    check_split_name(name)
    opened = open_reader(store)
    values = {part: _listed(given) for part, given in zip(PARTS[:3], (train, validation, test), strict=True)}
    parts = _parts(opened, column, values)
    patient = opened.patient_codes()[0]
    metadata = {
        "store": opened.sha256,
        "by": {"column": column, **{part: [str(value) for value in given] for part, given in values.items()}},
        "patients": {part: len(np.unique(patient[parts == index])) for index, part in enumerate(PARTS[:3])},
        "records": {part: int((parts == index).sum()) for index, part in enumerate(PARTS)},
    }
    check_leaks(opened, Split(name, "", metadata, parts))
    return save_split(opened, name, parts, metadata)


def parse_values(text: str, kind: pa.DataType) -> list[str]:
    """Parse values separated by commas. For a column of integers, ``1-8`` stands for 1 to 8."""
    values = [value.strip() for value in text.split(",") if value.strip()]
    ranges = [re.fullmatch(r"(\d+)-(\d+)", value) if pa.types.is_integer(kind) else None for value in values]
    return [
        each
        for value, found in zip(values, ranges, strict=True)
        for each in (map(str, range(int(found[1]), int(found[2]) + 1)) if found else [value])
    ]


def _listed(values: Any) -> list[Any]:
    is_single = isinstance(values, str) or not isinstance(values, Iterable)
    return [values] if is_single else [value.item() if isinstance(value, np.generic) else value for value in values]


def _parts(store: StoreReader, column: str, values: dict[str, list[Any]]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Return the part of each recording, as an index into ``PARTS``, (N,)."""
    cells = store.table(column).column(0)
    parts = np.full(len(store), PARTS.index("unused"), np.int8)
    for index, (part, given) in enumerate(values.items()):
        members = match_values(column, cells, given)
        if given and not members.any():
            raise ConfigError(f"No recording of the {part} part: column '{column}' has {_known_values(cells)}.")
        if (members & (parts < index)).any():
            raise ConfigError(f"Values of column '{column}' are in two parts. Put each value into one part.")
        parts[members] = index
    parts[~has_frames(store)] = PARTS.index("unused")
    return parts


def _known_values(cells: pa.ChunkedArray) -> str:
    found = sorted(map(str, pc.unique(pc.list_flatten(cells) if pa.types.is_list(cells.type) else cells).to_pylist()))
    more = f" and {len(found) - MAX_LISTED_VALUES} more" if len(found) > MAX_LISTED_VALUES else ""
    return ", ".join(found[:MAX_LISTED_VALUES]) + more
