"""Typed columns of the extra values of recordings, and masks by value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError

_TYPES: Final = (
    (pa.int64(), r"^-?(0|[1-9][0-9]{0,17})$"),
    (pa.float64(), r"^-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"),
    (pa.bool_(), r"^(?i:true|false)$"),
)
"""Types, each with the pattern of its values. Text such as ``007`` is no number, because it would lose its zeros."""

_RANGE: Final = re.compile(r"(-?\d+(?:\.\d+)?)?\.\.(-?\d+(?:\.\d+)?)?")


def typed_columns(extra: pa.MapArray) -> dict[str, pa.Array]:
    """Return the values of each name of a map as a column.

    Args:
        extra: Text by name for each recording, (N,).

    Returns:
        Columns (N,) in the order of their names. Their types are those of all values: integers, numbers, true or
        false, or text. Absent values are null.
    """
    names = sorted(pc.unique(extra.keys).to_pylist())
    return {name: typed(lookup(extra, name)) for name in names}


def lookup(extra: pa.MapArray, name: str) -> pa.StringArray:
    """Return the text of a name for each recording, (N,); null where it is absent."""
    return pc.map_lookup(extra, name, "first")


def typed(values: pa.StringArray) -> pa.Array:
    """Return text as integers, numbers, true or false if all values are such, otherwise unchanged."""
    present = values.drop_null()
    for kind, pattern in _TYPES:
        if pc.all(pc.match_substring_regex(present, pattern)).as_py():
            return values.cast(kind)
    return values


def common_type(types: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type that holds values of all types: numbers for integers and numbers, otherwise text."""
    if all(kind == types[0] for kind in types):
        return types[0]
    is_numeric = all(kind in (pa.int64(), pa.float64()) for kind in types)
    return pa.float64() if is_numeric else pa.string()


def match_values(name: str, column: pa.ChunkedArray, values: Any) -> npt.NDArray[np.bool_]:
    """Return which rows of a column have one of these values.

    Args:
        name: Name of the column, for messages.
        column: The column, (N,). A row of lists matches by any element.
        values: A value or several; None for absent values. In a column of numbers, the text ``60..100`` stands for
            numbers from 60 up to, but not including, 100. Either end may be left out.

    Returns:
        Mask of the rows, (N,) bool.

    Raises:
        ConfigError: A value is not of the column's type.
    """
    wanted = [values] if isinstance(values, str | bytes) or not isinstance(values, Iterable) else list(values)
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_nested(kind):
        raise ConfigError(f"Column '{name}' cannot be compared with values. Choose a column of values.")
    ranges = [found for value in wanted if (found := _parse_range(value, column.type))]
    wanted = [value for value in wanted if not _parse_range(value, column.type)]
    allowed = as_type(name, [value for value in wanted if value is not None], kind)
    if pa.types.is_list(column.type):
        rows = column.combine_chunks()
        mask = np.zeros(len(rows), bool)
        mask[pc.list_parent_indices(rows).filter(pc.is_in(rows.flatten(), allowed)).to_numpy()] = True
    else:
        mask = pc.is_in(column, allowed).to_numpy()
    for low, high in ranges:
        inside = pc.and_(pc.greater_equal(column, low), pc.less(column, high))
        mask = mask | pc.fill_null(inside, False).to_numpy()
    return mask | column.is_null().to_numpy() if None in wanted else mask


def _parse_range(value: Any, kind: pa.DataType) -> tuple[float, float] | None:
    """Return the ends of a range such as ``60..100``; None for other values, and for columns that are no numbers."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    found = _RANGE.fullmatch(value.strip()) if is_number and isinstance(value, str) else None
    if found is None or value.strip() == "..":
        return None
    low, high = found.groups()
    return float(low or -math.inf), float(high or math.inf)


def as_type(name: str, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values in the type of a column, by their text."""
    whole = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    try:
        return pa.array([str(value) for value in whole], pa.string()).cast(kind)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"Column '{name}' has values of type {kind}, got {list(values)}.") from error
