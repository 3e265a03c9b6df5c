"""Arrow columns as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def float_values(column: Any) -> npt.NDArray[np.float64]:
    """Return a float64 column as an array, NaN where a value is missing.

    Arrow's ``to_numpy`` imports pandas if it is installed, which takes half a second.

    Args:
        column: A ``pyarrow.DoubleArray``.
    """
    if not len(column):
        return np.empty(0)
    valid, raw = column.buffers()
    values = np.frombuffer(raw, np.float64, len(column), column.offset * 8)
    if not column.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[column.offset :][: len(column)]
    return np.where(bits, values, np.nan)
