"""What every way of searching has in common: queries in, rows and cosines out, some rows left out."""

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
    """The rows a search may return."""

    mask: Bools
    """(rows,)"""

    @functools.cached_property
    def count(self) -> int:
        return int(np.count_nonzero(self.mask))

    @functools.cached_property
    def rows(self) -> Ints:
        """Their numbers, ascending."""
        return np.flatnonzero(self.mask)

    @functools.cached_property
    def bits(self) -> npt.NDArray[np.uint8]:
        """The mask at a bit a row, the lowest first."""
        return np.packbits(self.mask, bitorder="little")


@dataclass(frozen=True, eq=False)
class Hits:
    """The nearest rows of each query, the nearest first."""

    rows: Ints
    """(Q, k); -1 where there are fewer."""
    cosines: Vectors
    """(Q, k); -inf where there are fewer."""

    def best(self, k: int) -> Hits:
        """The k nearest of these; of equal ones, the lowest row."""
        order = np.lexsort((self.rows, -self.cosines), axis=1)[:, :k]
        return Hits(np.take_along_axis(self.rows, order, 1), np.take_along_axis(self.cosines, order, 1))


def search_in_blocks(queries: Vectors, size: int, k: int, search: Callable[[Vectors], Hits]) -> Hits:
    """Search for so many of (Q, E) queries at once: what is held meanwhile does not grow with their number."""
    parts = [search(queries[at : at + size]) for at in range(0, len(queries), size)]
    if not parts:
        return Hits(np.empty((0, k), np.int64), np.empty((0, k), np.float32))
    return Hits(np.concatenate([part.rows for part in parts]), np.concatenate([part.cosines for part in parts]))


class Searcher(Protocol):
    """An open structure over (rows, E) unit vectors."""

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        """The k rows of highest cosine with each of (Q, E) unit vectors, only among ``allowed``."""
        ...


@dataclass(frozen=True)
class IndexKind:
    """A way of searching: how its structure is made of vectors, and opened."""

    name: str
    file: str | None
    """What the structure is saved as; None: it needs none beside the vectors."""
    min_rows: int
    """Rows below which the exact search serves as well, or the structure cannot be made."""
    build: Callable[[Vectors, Path], None]
    """Vectors, and the file to write."""
    open: Callable[[Path, Vectors], Searcher]


KINDS: Final[Registry[IndexKind]] = Registry(
    "search",
    {
        "exact": "clocs.similarity.index.exact:EXACT",
        "hnsw": "clocs.similarity.index.faiss_index:HNSW",
        "ivfpq": "clocs.similarity.index.faiss_index:IVFPQ",
    },
)
