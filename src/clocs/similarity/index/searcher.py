"""Interface shared by exact and approximate search."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from clocs.core.registry import Registry
from clocs.similarity.segments import Ints, Vectors

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AllowedRows:
    """Rows that a search may return."""

    mask: Bools
    """Mask of allowed rows, shape (rows,)."""

    @functools.cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.mask))

    @functools.cached_property
    def rows(self) -> Ints:
        """Numbers of the allowed rows, ascending."""
        return np.flatnonzero(self.mask)

    @functools.cached_property
    def bits(self) -> npt.NDArray[np.uint8]:
        """Mask packed to one bit per row, lowest bit first."""
        return np.packbits(self.mask, bitorder="little")


@dataclass(frozen=True, eq=False)
class Hits:
    """The nearest rows of each query, nearest first."""

    rows: Ints
    """Row numbers, shape (Q, k); -1 if fewer rows were found."""
    cosines: Vectors
    """Cosines, shape (Q, k); -inf if fewer rows were found."""

    def best(self, k: int) -> Hits:
        """Return the k nearest of these rows; ties go to the lowest row."""
        order = np.lexsort((self.rows, -self.cosines), axis=1)[:, :k]
        return Hits(np.take_along_axis(self.rows, order, 1), np.take_along_axis(self.cosines, order, 1))


def search_in_blocks(queries: Vectors, size: int, k: int, search: Callable[[Vectors], Hits]) -> Hits:
    """Search for queries (Q, E) in blocks of ``size``, which bounds the memory."""
    parts = [search(queries[at : at + size]) for at in range(0, len(queries), size)]
    if not parts:
        return Hits(np.empty((0, k), np.int64), np.empty((0, k), np.float32))
    return Hits(np.concatenate([part.rows for part in parts]), np.concatenate([part.cosines for part in parts]))


class Searcher(Protocol):
    """Search structure over unit vectors (rows, E)."""

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        """Return the k rows of highest cosine for each query (Q, E) of unit length, among the allowed rows."""
        ...


@dataclass(frozen=True)
class IndexKind:
    """A kind of index: functions that build and open its search structure."""

    name: str
    file: str | None
    """File name of the structure; None if only the vectors are needed."""
    min_rows: int
    """Minimum number of rows. Smaller volumes are searched exactly."""
    build: Callable[[Vectors, Path], None]
    """Build the structure from vectors and write it to a file."""
    open: Callable[[Path, Vectors], Searcher]


KINDS: Final[Registry[IndexKind]] = Registry(
    "search",
    {
        "exact": "clocs.similarity.index.exact:EXACT",
        "hnsw": "clocs.similarity.index.faiss_index:HNSW",
        "ivfpq": "clocs.similarity.index.faiss_index:IVFPQ",
    },
)
