"""Approximate search by FAISS (extra ``search``): a graph (HNSW), or inverted lists of compressed vectors (IVF-PQ).

HNSW has no removal: rows that must not be returned are left out inside the search, by a selector. Both files are
opened by memory-mapping: ``IO_FLAG_MMAP_IFC`` serves the graph with its vectors, and the lists.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from clocs.core.errors import IntegrityError, MissingExtraError
from clocs.core.files import atomic_file
from clocs.core.seeds import generator
from clocs.similarity.index.exact import Exact
from clocs.similarity.index.searcher import Hits, Kept, Kind, in_blocks
from clocs.similarity.segments import Vectors

LINKS: Final = 16
"""M of HNSW: a node has up to twice as many neighbours on the lowest level."""
BUILD_BREADTH: Final = 64
"""efConstruction."""
BREADTH: Final = 256
"""efSearch: candidates that are followed. On a million clustered vectors 128 found 98.5 % of the nearest ten."""
MOST_BREADTH: Final = 16 * BREADTH
"""With a filter breadth grows as the share of kept rows falls, up to this."""

LISTS_PER_ROOT: Final = 4
"""Lists of IVF-PQ: so many times the root of the number of rows."""
TRAINING_PER_LIST: Final = 40
"""Rows a list is trained on; FAISS wants at least 39."""
TRAINING_ROUNDS: Final = 10
PROBED: Final = 32
"""Lists that are searched; with a filter more."""
RERANKED: Final = 10
"""IVF-PQ's candidates for each neighbour wanted; they are put in order by their exact cosines."""
RERANKED_AT_ONCE: Final = 1 << 16
"""Candidates of all queries together whose vectors are held: 32 MB at 128 numbers."""
CODE_BITS: Final = 8
LEAST_FOR_LISTS: Final = 39 * 2**CODE_BITS
"""Rows below which codes cannot be trained."""
ADDED_AT_ONCE: Final = 1 << 16


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("search", "approximate search") from None
    return faiss


class _Graph:
    """An open HNSW index."""

    def __init__(self, index: Any, vectors: Vectors) -> None:
        self._index, self._vectors = index, vectors
        self._usual = _faiss().SearchParametersHNSW(efSearch=BREADTH)

    def search(self, queries: Vectors, k: int, kept: Kept | None) -> Hits:
        params = self._usual if kept is None and 2 * k <= BREADTH else self._params(k, kept)
        cosines, rows = self._index.search(queries, k, params=params)
        return _filled(Hits(rows, cosines), self._vectors, queries, k, kept)

    def _params(self, k: int, kept: Kept | None) -> Any:
        faiss = _faiss()
        breadth = max(BREADTH, 2 * k)
        if kept is None:
            return faiss.SearchParametersHNSW(efSearch=breadth)
        wide = math.ceil(breadth * len(self._vectors) / max(kept.count, 1))
        chosen = faiss.IDSelectorBitmap(kept.bits)
        return faiss.SearchParametersHNSW(efSearch=min(wide, max(MOST_BREADTH, breadth)), sel=chosen)


class _Lists:
    """An open IVF-PQ index; what its codes say is put in order by the vectors themselves."""

    def __init__(self, index: Any, vectors: Vectors) -> None:
        self._index, self._vectors = index, vectors

    def search(self, queries: Vectors, k: int, kept: Kept | None) -> Hits:
        wanted = RERANKED * k
        if wanted >= len(self._vectors):  # everyone would be put in order, so the lists save nothing
            return Exact(self._vectors).search(queries, k, kept)
        params = self._params(kept)

        def best(some: Vectors) -> Hits:
            rows = self._index.search(some, wanted, params=params)[1]
            cosines = np.einsum("qe,qke->qk", some, self._vectors[rows])
            cosines[rows < 0] = -np.inf
            return Hits(rows, cosines).best(k)

        found = in_blocks(queries, max(1, RERANKED_AT_ONCE // wanted), k, best)
        return _filled(found, self._vectors, queries, k, kept)

    def _params(self, kept: Kept | None) -> Any:
        faiss = _faiss()
        if kept is None:
            return faiss.SearchParametersIVF(nprobe=PROBED)
        share = max(kept.count, 1) / len(self._vectors)
        chosen = faiss.IDSelectorBitmap(kept.bits)
        return faiss.SearchParametersIVF(nprobe=min(math.ceil(PROBED / share), self._index.nlist), sel=chosen)


def _filled(found: Hits, vectors: Vectors, queries: Vectors, k: int, kept: Kept | None) -> Hits:
    """Queries that got fewer rows than there are, which a filter far from them can cause, are compared with all."""
    if found.rows.min(initial=0) >= 0:
        return found
    found.cosines[found.rows < 0] = -np.inf
    there = min(k, len(vectors) if kept is None else kept.count)
    short = np.flatnonzero((found.rows >= 0).sum(1) < there)
    if len(short):
        again = Exact(vectors).search(queries[short], k, kept)
        found.rows[short], found.cosines[short] = again.rows, again.cosines
    return found


def build_graph(vectors: Vectors, path: Path) -> None:
    """The same bytes each time with one thread (``OMP_NUM_THREADS=1``); with several, nodes may come in any order."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_BREADTH
    _fill(index, vectors, path)


def build_lists(vectors: Vectors, path: Path) -> None:
    """Lists and codes are trained on a sample of rows, the same each time."""
    faiss = _faiss()
    rows, embedding = vectors.shape
    lists = max(1, round(LISTS_PER_ROOT * math.sqrt(rows)))
    lists = min(lists, rows // TRAINING_PER_LIST)
    codes = next(size for size in range(max(1, embedding // 4), 0, -1) if embedding % size == 0)
    coarse = faiss.IndexFlatIP(embedding)
    index = faiss.IndexIVFPQ(coarse, embedding, lists, codes, CODE_BITS, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = index.pq.cp.niter = TRAINING_ROUNDS
    wanted = min(rows, max(TRAINING_PER_LIST * lists, 2 * LEAST_FOR_LISTS))
    sample = np.sort(generator(0, "lists").choice(rows, wanted, replace=False))
    index.train(vectors[sample])
    _fill(index, vectors, path)


def _fill(index: Any, vectors: Vectors, path: Path) -> None:
    faiss = _faiss()
    for begin in range(0, len(vectors), ADDED_AT_ONCE):
        index.add(vectors[begin : begin + ADDED_AT_ONCE])
    with atomic_file(path) as file:
        writer = faiss.PyCallbackIOWriter(file.write)
        faiss.write_index(index, writer)
        del writer


def _open(path: Path, vectors: Vectors) -> Any:
    """The file's hash was checked: FAISS itself trusts what it reads."""
    faiss = _faiss()
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise IntegrityError(f"{path.name}: FAISS cannot read it: {error!s:.200}") from error
    if (index.ntotal, index.d) != vectors.shape:
        raise IntegrityError(f"{path.name}: holds {index.ntotal} vectors of {index.d}, not {vectors.shape}")
    return index


def open_graph(path: Path, vectors: Vectors) -> _Graph:
    """By memory map."""
    return _Graph(_open(path, vectors), vectors)


def open_lists(path: Path, vectors: Vectors) -> _Lists:
    """By memory map."""
    return _Lists(_open(path, vectors), vectors)


HNSW: Final = Kind("hnsw", "graph.faiss", 1, build_graph, open_graph)
IVFPQ: Final = Kind("ivfpq", "lists.faiss", LEAST_FOR_LISTS, build_lists, open_lists)
