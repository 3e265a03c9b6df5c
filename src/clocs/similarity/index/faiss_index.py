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
from clocs.similarity.index.searcher import AllowedRows, Hits, IndexKind, search_in_blocks
from clocs.similarity.segments import Vectors

HNSW_LINKS: Final = 16
"""M of HNSW: a node has up to twice as many neighbours on the lowest level."""
EF_CONSTRUCTION: Final = 64
"""efConstruction."""
EF_SEARCH: Final = 256
"""efSearch: candidates that are followed. On a million clustered vectors 128 found 98.5 % of the nearest ten."""
MAX_EF_SEARCH: Final = 16 * EF_SEARCH
"""With a filter breadth grows as the share of kept rows falls, up to this."""

LISTS_PER_ROOT: Final = 4
"""Lists of IVF-PQ: so many times the root of the number of rows."""
TRAINING_PER_LIST: Final = 40
"""Rows a list is trained on; FAISS wants at least 39."""
TRAINING_ROUNDS: Final = 10
NUM_PROBES: Final = 32
"""Lists that are searched; with a filter more."""
CANDIDATES_PER_NEIGHBOR: Final = 10
"""IVF-PQ's candidates for each neighbour wanted; they are put in order by their exact cosines."""
CANDIDATES_PER_BLOCK: Final = 1 << 16
"""Candidates of all queries together whose vectors are held: 32 MB at 128 numbers."""
CODE_BITS: Final = 8
MIN_IVFPQ_ROWS: Final = 39 * 2**CODE_BITS
"""Rows below which codes cannot be trained."""
ROWS_PER_BLOCK: Final = 1 << 16


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("search", "approximate search") from None
    return faiss


class _HnswSearcher:
    """An open HNSW index."""

    def __init__(self, index: Any, vectors: Vectors) -> None:
        self._index, self._vectors = index, vectors
        self._default_params = _faiss().SearchParametersHNSW(efSearch=EF_SEARCH)

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        params = self._default_params if allowed is None and 2 * k <= EF_SEARCH else self._params(k, allowed)
        cosines, rows = self._index.search(queries, k, params=params)
        return _complete_results(Hits(rows, cosines), self._vectors, queries, k, allowed)

    def _params(self, k: int, allowed: AllowedRows | None) -> Any:
        faiss = _faiss()
        breadth = max(EF_SEARCH, 2 * k)
        if allowed is None:
            return faiss.SearchParametersHNSW(efSearch=breadth)
        wide = math.ceil(breadth * len(self._vectors) / max(allowed.count, 1))
        chosen = faiss.IDSelectorBitmap(allowed.bits)
        return faiss.SearchParametersHNSW(efSearch=min(wide, max(MAX_EF_SEARCH, breadth)), sel=chosen)


class _IvfPqSearcher:
    """An open IVF-PQ index; what its codes say is put in order by the vectors themselves."""

    def __init__(self, index: Any, vectors: Vectors) -> None:
        self._index, self._vectors = index, vectors

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        wanted = CANDIDATES_PER_NEIGHBOR * k
        if wanted >= len(self._vectors):  # everyone would be put in order, so the lists save nothing
            return Exact(self._vectors).search(queries, k, allowed)
        params = self._params(allowed)

        def best(some: Vectors) -> Hits:
            rows = self._index.search(some, wanted, params=params)[1]
            cosines = np.einsum("qe,qke->qk", some, self._vectors[rows])
            cosines[rows < 0] = -np.inf
            return Hits(rows, cosines).best(k)

        found = search_in_blocks(queries, max(1, CANDIDATES_PER_BLOCK // wanted), k, best)
        return _complete_results(found, self._vectors, queries, k, allowed)

    def _params(self, allowed: AllowedRows | None) -> Any:
        faiss = _faiss()
        if allowed is None:
            return faiss.SearchParametersIVF(nprobe=NUM_PROBES)
        share = max(allowed.count, 1) / len(self._vectors)
        chosen = faiss.IDSelectorBitmap(allowed.bits)
        return faiss.SearchParametersIVF(nprobe=min(math.ceil(NUM_PROBES / share), self._index.nlist), sel=chosen)


def _complete_results(found: Hits, vectors: Vectors, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
    """Queries that got fewer rows than there are, which a filter far from them can cause, are compared with all."""
    if found.rows.min(initial=0) >= 0:
        return found
    found.cosines[found.rows < 0] = -np.inf
    there = min(k, len(vectors) if allowed is None else allowed.count)
    short = np.flatnonzero((found.rows >= 0).sum(1) < there)
    if len(short):
        again = Exact(vectors).search(queries[short], k, allowed)
        found.rows[short], found.cosines[short] = again.rows, again.cosines
    return found


def build_hnsw(vectors: Vectors, path: Path) -> None:
    """The same bytes each time with one thread (``OMP_NUM_THREADS=1``); with several, nodes may come in any order."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    _add_and_write(index, vectors, path)


def build_ivfpq(vectors: Vectors, path: Path) -> None:
    """Lists and codes are trained on a sample of rows, the same each time."""
    faiss = _faiss()
    rows, embedding = vectors.shape
    lists = max(1, round(LISTS_PER_ROOT * math.sqrt(rows)))
    lists = min(lists, rows // TRAINING_PER_LIST)
    codes = next(size for size in range(max(1, embedding // 4), 0, -1) if embedding % size == 0)
    coarse = faiss.IndexFlatIP(embedding)
    index = faiss.IndexIVFPQ(coarse, embedding, lists, codes, CODE_BITS, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = index.pq.cp.niter = TRAINING_ROUNDS
    wanted = min(rows, max(TRAINING_PER_LIST * lists, 2 * MIN_IVFPQ_ROWS))
    sample = np.sort(generator(0, "lists").choice(rows, wanted, replace=False))
    index.train(vectors[sample])
    _add_and_write(index, vectors, path)


def _add_and_write(index: Any, vectors: Vectors, path: Path) -> None:
    faiss = _faiss()
    for begin in range(0, len(vectors), ROWS_PER_BLOCK):
        index.add(vectors[begin : begin + ROWS_PER_BLOCK])
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


def open_hnsw(path: Path, vectors: Vectors) -> _HnswSearcher:
    """By memory map."""
    return _HnswSearcher(_open(path, vectors), vectors)


def open_ivfpq(path: Path, vectors: Vectors) -> _IvfPqSearcher:
    """By memory map."""
    return _IvfPqSearcher(_open(path, vectors), vectors)


HNSW: Final = IndexKind("hnsw", "graph.faiss", 1, build_hnsw, open_hnsw)
IVFPQ: Final = IndexKind("ivfpq", "lists.faiss", MIN_IVFPQ_ROWS, build_ivfpq, open_ivfpq)
