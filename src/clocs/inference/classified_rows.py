"""Rows of a table of classified recordings, found by the name of the recording in constant memory."""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clocs.core.errors import ConfigError
from clocs.store.segments import hash_id, hash_ids

NAME_COLUMN: Final = "recording"


class ClassifiedRows:
    """An Arrow table of ``clocs classify STORE --out TABLE.arrow``. Rows are read when they are asked for.

    Args:
        path: The table.

    Raises:
        ConfigError: The file does not exist or is no such table.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        except (OSError, pa.ArrowException) as error:
            raise _no_table(path) from error
        if NAME_COLUMN not in self._file.schema.names:
            raise _no_table(path)
        batches = [self._file.get_batch(number) for number in range(self._file.num_record_batches)]
        self._starts = [0, *itertools.accumulate(batch.num_rows for batch in batches)]
        hashes = [hash_ids(batch.column(NAME_COLUMN).to_pylist()) for batch in batches]
        joined = np.concatenate([np.empty(0, np.uint64), *hashes])
        self._order = np.argsort(joined, kind="stable").astype(np.uint32)
        self._hashes = joined[self._order]

    @property
    def encoder_sha256(self) -> str:
        """Hash of the weights of the encoder that classified the recordings; empty if there are none."""
        return str(self._row(0).get("encoder_sha256") or "") if len(self) else ""

    def __len__(self) -> int:
        return len(self._order)

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the row of a recording; None if the table does not have it."""
        first = int(np.searchsorted(self._hashes, np.uint64(hash_id(name))))
        for position in range(first, len(self)):
            if self._hashes[position] != hash_id(name):
                return None
            row = self._row(int(self._order[position]))
            if row[NAME_COLUMN] == name:
                return row
        return None

    def _row(self, number: int) -> dict[str, Any]:
        batch = bisect.bisect_right(self._starts, number) - 1
        row: dict[str, Any] = self._file.get_batch(batch).slice(number - self._starts[batch], 1).to_pylist()[0]
        return row


def _no_table(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is no Arrow table of classified recordings. Make one: clocs classify STORE --out TABLE.arrow"
    )
