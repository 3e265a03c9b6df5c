"""The list of all shards of a store version."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from clocs.store.arrow_files import column_view
from clocs.store.segments import Segment
from clocs.store.shard import ShardInfo


class ShardTable(Sequence[ShardInfo]):
    """Entries of all shards of a store version, read on first use.

    Args:
        segments: Segments in order.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._starts = [0, *itertools.accumulate(segment.info.shards for segment in segments)]

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, number: int) -> ShardInfo: ...
    @overload
    def __getitem__(self, number: slice) -> list[ShardInfo]: ...
    def __getitem__(self, number: int | slice) -> ShardInfo | list[ShardInfo]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        index = number if number >= 0 else number + len(self)
        if not 0 <= index < len(self):
            raise IndexError(number)
        segment = bisect.bisect_right(self._starts, index) - 1
        return self._segments[segment].shard_infos[index - self._starts[segment]]

    def __iter__(self) -> Iterator[ShardInfo]:
        return (info for segment in self._segments for info in segment.shard_infos)

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of integers of all shards, (shards,)."""
        parts = [column_view(segment.shard_table.column(name), np.int64) for segment in self._segments]
        return np.concatenate(parts or [np.empty(0, np.int64)])

    def files(self) -> list[str]:
        """Return the names of all files, in order."""
        return [name for segment in self._segments for name in segment.files()]
