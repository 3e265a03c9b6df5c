"""Exact search: matrix products in blocks over vectors that may be memory-mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from clocs.similarity.index.searcher import AllowedRows, Hits, IndexKind, search_in_blocks
from clocs.similarity.segments import Vectors

QUERIES_PER_BLOCK: Final = 256
"""Queries per block."""
COSINES_PER_BLOCK: Final = 1 << 20
"""Cosines per block: 4 MB, which fits into the processor's cache."""
PARTITION_SHARE: Final = 0.05
"""If more than this share of a block improves on a query's best rows, the block is partitioned."""
COPY_SHARE: Final = 0.5
"""If less than this share of rows is allowed, they are copied out instead of computing all cosines."""


class Exact:
    """Exhaustive search over all rows."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None = None) -> Hits:
        return search_in_blocks(queries, QUERIES_PER_BLOCK, k, lambda some: self._search(some, k, allowed))

    def _search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        copied = allowed is not None and allowed.count < COPY_SHARE * len(self._vectors)
        rows = allowed.rows if allowed is not None and copied else None
        total = len(self._vectors) if rows is None else len(rows)
        best = Hits(np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32))
        size = max(1, min(max(1024, COSINES_PER_BLOCK // len(queries)), total))
        held = np.empty((len(queries), size), np.float32)
        for begin in range(0, total, size):
            end = min(begin + size, total)
            block = self._vectors[begin:end] if rows is None else self._vectors[rows[begin:end]]
            cosines = np.matmul(queries, block.T, out=held[:, : end - begin])
            if allowed is not None and rows is None:
                cosines[:, ~allowed.mask[begin:end]] = -np.inf
            found = _improvements(cosines, best, k)
            if found is not None:
                positions = found.rows + begin
                numbers = positions if rows is None else rows[positions]
                best = _concatenate(best, Hits(np.where(found.rows < 0, -1, numbers), found.cosines)).best(k)
        return best


def _improvements(cosines: Vectors, best: Hits, k: int) -> Hits | None:
    """Return at max_count k rows of a block per query that improve on the k-th best so far, or None.

    After the first blocks few rows do. Finding them takes one comparison per cosine, much less than a partition.
    """
    beats = cosines > best.cosines[:, -1:]
    max_count = int(np.count_nonzero(beats, axis=1).max(initial=0))
    if max_count == 0:
        return None
    width = min(k, cosines.shape[1])
    if max_count > max(width, PARTITION_SHARE * cosines.shape[1]):
        positions = np.argpartition(cosines, cosines.shape[1] - width, axis=1)[:, cosines.shape[1] - width :]
        found = np.take_along_axis(cosines, positions, 1)
    else:
        query, position = np.divmod(np.flatnonzero(beats), cosines.shape[1])
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        positions = np.full((len(cosines), max_count), -1, np.int64)
        found = np.full((len(cosines), max_count), -np.inf, np.float32)
        positions[query, rank], found[query, rank] = position, cosines[query, position]
    return Hits(np.where(np.isneginf(found), -1, positions), found)


def _concatenate(one: Hits, other: Hits) -> Hits:
    return Hits(np.concatenate([one.rows, other.rows], 1), np.concatenate([one.cosines, other.cosines], 1))


def _build(vectors: Vectors, path: Path) -> None:
    """Build nothing: exact search needs only the vectors."""


def _open(path: Path, vectors: Vectors) -> Exact:
    return Exact(vectors)


EXACT: Final = IndexKind("exact", None, 0, _build, _open)
