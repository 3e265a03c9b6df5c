"""Columns of numbers that Arrow parses, as arrays. Shared by the formats."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt


def read_rows(raw: bytes, num_columns: int, offset: int = 0) -> Iterator[npt.NDArray[np.float64]]:
    """Parse rows of comma-separated numbers in batches, because numbers take up to four times the memory of their text.

    Args:
        raw: Content of a file.
        num_columns: Number of fields of each row.
        offset: Offset of the first row in bytes.

    Returns:
        Arrays of shape (columns, rows), NaN where a field is empty or NaN.

    Raises:
        pyarrow.ArrowException: A row has another number of fields, or a field is no number.
    """
    import pyarrow as pa
    from pyarrow import csv

    rows = pa.BufferReader(pa.py_buffer(raw).slice(offset))
    yield from map(float_values, csv.open_csv(rows, *_options(num_columns)))


@functools.lru_cache(maxsize=8)  # a file names the number of columns
def _options(num_columns: int) -> tuple[Any, Any, Any]:
    import pyarrow as pa
    from pyarrow import csv

    columns = [str(number) for number in range(num_columns)]
    return (
        csv.ReadOptions(column_names=columns, use_threads=False),
        csv.ParseOptions(quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.float64()), null_values=["NaN", "nan", ""]),
    )


def float_values(batch: Any) -> npt.NDArray[np.float64]:
    """Return a batch of float64 columns as an array of shape (columns, rows), NaN where a value is missing.

    The ``to_numpy`` of a column imports pandas if it is installed, which takes half a second.

    Args:
        batch: A ``pyarrow.RecordBatch``.
    """
    values: npt.NDArray[np.float64] = batch.to_tensor(null_to_nan=True, row_major=False).to_numpy().T
    return values
