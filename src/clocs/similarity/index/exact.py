"""Exact search: a matrix product in blocks over vectors that may lie on disk. No dependency but numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from clocs.similarity.index.searcher import AllowedRows, Hits, IndexKind, search_in_blocks
from clocs.similarity.segments import Vectors

QUERIES_PER_BLOCK: Final = 256
"""Queries that are compared at once."""
COSINES_PER_BLOCK: Final = 1 << 20
"""Cosines that are held at once: 4 MB, so that they stay in the processor's cache."""
PARTITION_SHARE: Final = 0.05
"""Share of a block's rows beating a query's best so far, from which on they are partitioned."""
COPY_SHARE: Final = 0.5
"""Share of kept rows below which they are copied out, rather than all rows compared."""


class Exact:
    """Compares every row."""

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
                places = found.rows + begin
                numbers = places if rows is None else rows[places]
                best = _concatenate(best, Hits(np.where(found.rows < 0, -1, numbers), found.cosines)).best(k)
        return best


def _improvements(cosines: Vectors, best: Hits, k: int) -> Hits | None:
    """Places in a block whose cosines beat the k-th best so far, at most k a query; None where there is none.

    After the first blocks few do, and finding them costs one comparison a cosine: far less than a partition.
    """
    beats = cosines > best.cosines[:, -1:]
    most = int(np.count_nonzero(beats, axis=1).max(initial=0))
    if most == 0:
        return None
    width = min(k, cosines.shape[1])
    if most > max(width, PARTITION_SHARE * cosines.shape[1]):
        places = np.argpartition(cosines, cosines.shape[1] - width, axis=1)[:, cosines.shape[1] - width :]
        found = np.take_along_axis(cosines, places, 1)
    else:
        query, place = np.divmod(np.flatnonzero(beats), cosines.shape[1])
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        places = np.full((len(cosines), most), -1, np.int64)
        found = np.full((len(cosines), most), -np.inf, np.float32)
        places[query, rank], found[query, rank] = place, cosines[query, place]
    return Hits(np.where(np.isneginf(found), -1, places), found)


def _concatenate(one: Hits, other: Hits) -> Hits:
    return Hits(np.concatenate([one.rows, other.rows], 1), np.concatenate([one.cosines, other.cosines], 1))


def _build(vectors: Vectors, path: Path) -> None:
    """Nothing beside the vectors is needed."""


def _open(path: Path, vectors: Vectors) -> Exact:
    return Exact(vectors)


EXACT: Final = IndexKind("exact", None, 0, _build, _open)
