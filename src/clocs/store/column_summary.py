"""Summary of the columns of a store by which recordings can be selected, with masked examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.privacy.identity_patterns import find_identity_in_value, is_identifying_name, mask
from clocs.store.extra_columns import match_values
from clocs.store.reader import StoreLike, StoreReader, open_reader

SUMMARIZED_COLUMNS: Final = (
    *("record_id", "patient_id", "site", "age", "sex", "labels", "sampling_rate", "num_samples", "leads", "unit"),
    "format",
)
"""Known columns that a summary has, before the extra columns."""
NUM_EXAMPLES: Final = 3
MIN_PATIENTS: Final = 5
"""Number of patients who share a text, below which it is masked."""
_HARMLESS: Final = ("sex", "leads", "unit", "format")
"""Columns of text that do not depend on what someone typed."""


@dataclass(frozen=True)
class ColumnSummary:
    """A column of a store."""

    name: str
    """Name of the column."""
    type: str
    """Type of the values: ``integer``, ``number``, ``true or false``, ``text`` or ``list of text``."""
    num_values: int
    """Number of recordings with a value."""
    num_distinct: int
    """Number of different values."""
    examples: tuple[str, ...]
    """The most common values, masked where they could identify a person."""
    is_extra: bool
    """True if the column came with the dataset or a table."""


def summarize_columns(store: StoreLike) -> list[ColumnSummary]:
    """Return the columns of a store by which recordings can be selected.

    Args:
        store: A store or its folder.

    Returns:
        Known columns, then extra columns by name.
    """
    opened = open_reader(store)
    return [_summarize(opened, name) for name in (*SUMMARIZED_COLUMNS, *opened.extra_types)]


def _summarize(store: StoreReader, name: str) -> ColumnSummary:
    column = store.table(name).column(0)
    is_list = pa.types.is_list(column.type)
    flat = pc.list_flatten(column) if is_list else column
    counts = {
        row["values"]: row["counts"] for row in pc.value_counts(flat).to_pylist() if row["values"] not in (None, "")
    }
    common = sorted(counts, key=lambda value: (-counts[value], str(value)))[:NUM_EXAMPLES]
    filled = pc.sum(pc.greater(pc.list_value_length(column), 0)).as_py() if is_list else sum(counts.values())
    return ColumnSummary(
        name=name,
        type=f"list of {_type_name(column.type.value_type)}" if is_list else _type_name(column.type),
        num_values=filled or 0,
        num_distinct=len(counts),
        examples=tuple(_example(store, name, column, value) for value in common),
        is_extra=name not in SUMMARIZED_COLUMNS,
    )


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "true or false"
    return "integer" if pa.types.is_integer(kind) else "number" if pa.types.is_floating(kind) else "text"


def _example(store: StoreReader, name: str, column: pa.ChunkedArray, value: Any) -> str:
    """Return a value as text, masked if a pattern, the column's name or its rarity says that it may identify."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    if name in _HARMLESS:
        return text
    if name in ("record_id", "patient_id") or is_identifying_name(name) or find_identity_in_value(text):
        return mask(text)
    if not isinstance(value, str):
        return text
    patients = np.unique(store.patient_codes()[0][match_values(name, column, value)])
    return text if len(patients) >= MIN_PATIENTS else mask(text)
