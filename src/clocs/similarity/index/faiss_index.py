"""Approximate search by FAISS (extra ``search``): HNSW graphs and IVF-PQ lists.

HNSW supports no removal, so a selector excludes rows during the search. Both kinds are memory-mapped with
``IO_FLAG_MMAP_IFC``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from clocs.core.errors import IntegrityError, MissingExtraError
from clocs.core.seeds import generator
from clocs.core.storage.files import atomic_file
from clocs.similarity.index.exact import Exact
from clocs.similarity.index.searcher import AllowedRows, Hits, IndexKind, search_in_blocks
from clocs.similarity.segments import Vectors

HNSW_LINKS: Final = 16
"""Parameter M of HNSW. Nodes of the lowest level have up to twice as many links."""
EF_CONSTRUCTION: Final = 64
"""Parameter efConstruction of HNSW."""
EF_SEARCH: Final = 256
"""Parameter efSearch of HNSW. On a million clustered vectors, 128 found 98.5 % of the ten nearest."""
MAX_EF_SEARCH: Final = 16 * EF_SEARCH
"""Maximum of efSearch. Under a filter, efSearch grows as the share of allowed rows falls."""

LISTS_PER_ROOT: Final = 4
"""Number of IVF lists, divided by the square root of the number of rows."""
TRAINING_PER_LIST: Final = 40
"""Training rows per list; FAISS requires at least 39."""
TRAINING_ROUNDS: Final = 10
NUM_PROBES: Final = 32
"""Lists searched per query; more under a filter."""
CANDIDATES_PER_NEIGHBOR: Final = 10
"""IVF-PQ candidates per requested neighbor, which are reranked by exact cosines."""
CANDIDATES_PER_BLOCK: Final = 1 << 16
"""Candidates reranked at once, over all queries: 32 MB at 128 dimensions."""
CODE_BITS: Final = 8
MIN_IVFPQ_ROWS: Final = 39 * 2**CODE_BITS
"""Minimum number of rows for training the codes."""
ROWS_PER_BLOCK: Final = 1 << 16


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("search", "approximate search") from None
    return faiss


class _HnswSearcher:
    """Open HNSW index."""

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
    """Open IVF-PQ index that reranks candidates by their exact cosines."""

    def __init__(self, index: Any, vectors: Vectors) -> None:
        self._index, self._vectors = index, vectors

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        num_candidates = CANDIDATES_PER_NEIGHBOR * k
        if num_candidates >= len(self._vectors):  # all rows would be reranked, so the lists save nothing
            return Exact(self._vectors).search(queries, k, allowed)
        params = self._params(allowed)

        def best(some: Vectors) -> Hits:
            rows = self._index.search(some, num_candidates, params=params)[1]
            cosines = np.einsum("qe,qke->qk", some, self._vectors[rows])
            cosines[rows < 0] = -np.inf
            return Hits(rows, cosines).best(k)

        found = search_in_blocks(queries, max(1, CANDIDATES_PER_BLOCK // num_candidates), k, best)
        return _complete_results(found, self._vectors, queries, k, allowed)

    def _params(self, allowed: AllowedRows | None) -> Any:
        faiss = _faiss()
        if allowed is None:
            return faiss.SearchParametersIVF(nprobe=NUM_PROBES)
        share = max(allowed.count, 1) / len(self._vectors)
        chosen = faiss.IDSelectorBitmap(allowed.bits)
        return faiss.SearchParametersIVF(nprobe=min(math.ceil(NUM_PROBES / share), self._index.nlist), sel=chosen)


def _complete_results(found: Hits, vectors: Vectors, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
    """Search exactly for queries that got fewer rows than requested, which a filter far from the query can cause."""
    if found.rows.min(initial=0) >= 0:
        return found
    found.cosines[found.rows < 0] = -np.inf
    expected = min(k, len(vectors) if allowed is None else allowed.count)
    short = np.flatnonzero((found.rows >= 0).sum(1) < expected)
    if len(short):
        again = Exact(vectors).search(queries[short], k, allowed)
        found.rows[short], found.cosines[short] = again.rows, again.cosines
    return found


def build_hnsw(vectors: Vectors, path: Path) -> None:
    """Build an HNSW graph. The file is reproducible with one thread (``OMP_NUM_THREADS=1``)."""
    faiss = _faiss()
    index = faiss.IndexHNSWFlat(vectors.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = EF_CONSTRUCTION
    _add_and_write(index, vectors, path)


def build_ivfpq(vectors: Vectors, path: Path) -> None:
    """Build IVF lists and PQ codes, trained on a fixed random sample of rows."""
    faiss = _faiss()
    rows, embedding_dim = vectors.shape
    lists = max(1, round(LISTS_PER_ROOT * math.sqrt(rows)))
    lists = min(lists, rows // TRAINING_PER_LIST)
    codes = next(size for size in range(max(1, embedding_dim // 4), 0, -1) if embedding_dim % size == 0)
    coarse = faiss.IndexFlatIP(embedding_dim)
    index = faiss.IndexIVFPQ(coarse, embedding_dim, lists, codes, CODE_BITS, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = index.pq.cp.niter = TRAINING_ROUNDS
    num_rows = min(rows, max(TRAINING_PER_LIST * lists, 2 * MIN_IVFPQ_ROWS))
    sample = np.sort(generator(0, "lists").choice(rows, num_rows, replace=False))
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
    """Read a FAISS index, after its hash was checked because FAISS does not validate its input."""
    faiss = _faiss()
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise IntegrityError(f"{path.name}: FAISS cannot read the file: {error!s:.200}") from error
    if (index.ntotal, index.d) != vectors.shape:
        raise IntegrityError(f"{path.name}: expected {vectors.shape} vectors, got {(index.ntotal, index.d)}.")
    return index


def open_hnsw(path: Path, vectors: Vectors) -> _HnswSearcher:
    """Open an HNSW index by memory map."""
    return _HnswSearcher(_open(path, vectors), vectors)


def open_ivfpq(path: Path, vectors: Vectors) -> _IvfPqSearcher:
    """Open an IVF-PQ index by memory map."""
    return _IvfPqSearcher(_open(path, vectors), vectors)


HNSW: Final = IndexKind("hnsw", "graph.faiss", 1, build_hnsw, open_hnsw)
IVFPQ: Final = IndexKind("ivfpq", "lists.faiss", MIN_IVFPQ_ROWS, build_ivfpq, open_ivfpq)
