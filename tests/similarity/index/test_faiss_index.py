"""Approximate search, compared with exact search: recall, filters and files."""

from __future__ import annotations

import builtins
import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import IntegrityError, MissingExtraError
from clocs.similarity.index.exact import Exact
from clocs.similarity.index.searcher import KINDS, AllowedRows
from clocs.similarity.segments import Vectors
from tests.similarity.archives import clustered, near, recall

faiss = pytest.importorskip("faiss", reason="needs the extra 'search'")
ROWS, EMBEDDING, K = 12_000, 64, 10


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return clustered(ROWS, EMBEDDING, clusters=100)


@pytest.fixture(scope="module")
def files(vectors: Vectors, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("faiss")
    made = {name: folder / str(KINDS.get(name).file) for name in ("hnsw", "ivfpq")}
    for name, path in made.items():
        KINDS.get(name).build(vectors, path)
    return made


@pytest.mark.parametrize("name", ["hnsw", "ivfpq"])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.05])
def test_recall_and_what_is_left_out(name: str, share: float, vectors: Vectors, files: dict[str, Path]) -> None:
    """Every row returned may be; of the ten nearest that may, at least 99 in 100 are found."""
    queries = near(vectors, 300)
    mask = np.random.default_rng(3).random(ROWS) < share
    allowed = None if share == 1 else AllowedRows(mask)
    found = KINDS.get(name).open(files[name], vectors).search(queries, K, allowed)
    truth = Exact(vectors).search(queries, K, allowed)
    if allowed is not None:
        assert mask[found.rows].all()
    assert recall(found.rows, truth.rows) >= 0.99
    same = found.rows == truth.rows
    np.testing.assert_allclose(found.cosines[same], truth.cosines[same], atol=1e-5)
    assert (np.diff(found.cosines, axis=1) <= 1e-6).all()


@pytest.mark.parametrize("name", ["hnsw", "ivfpq"])
def test_allowed_rows_far_from_the_query_are_found(name: str, vectors: Vectors, files: dict[str, Path]) -> None:
    """Only the forty farthest rows may be found: a graph or a list near the query holds none of them."""
    query = near(vectors, 1)
    mask = np.zeros(ROWS, bool)
    mask[np.argsort(vectors @ query[0])[:40]] = True
    found = KINDS.get(name).open(files[name], vectors).search(query, K, AllowedRows(mask))
    truth = Exact(vectors).search(query, K, AllowedRows(mask))
    assert mask[found.rows].all()
    np.testing.assert_array_equal(found.rows, truth.rows)


def test_fewer_rows_than_neighbours(vectors: Vectors, tmp_path: Path) -> None:
    few = vectors[:3].copy()
    KINDS.get("hnsw").build(few, tmp_path / "graph.faiss")
    found = KINDS.get("hnsw").open(tmp_path / "graph.faiss", few).search(few, 5, None)
    assert [sorted(row.tolist()) for row in found.rows] == [[-1, -1, 0, 1, 2]] * 3


@pytest.mark.parametrize("k", [ROWS // 10, ROWS, ROWS + 5])
def test_lists_can_return_all_rows(k: int, vectors: Vectors, files: dict[str, Path]) -> None:
    """Against a sort of all cosines."""
    queries = near(vectors, 3)
    found = KINDS.get("ivfpq").open(files["ivfpq"], vectors).search(queries, k, None)
    cosines = queries @ vectors.T
    assert found.rows.shape == found.cosines.shape == (3, k)
    there = min(k, ROWS)
    np.testing.assert_allclose(found.cosines[:, :there], -np.sort(-cosines, axis=1)[:, :there], atol=1e-6)
    assert [len(set(row)) for row in found.rows[:, :there].tolist()] == [there] * 3
    assert (found.rows[:, there:] == -1).all()
    assert np.isneginf(found.cosines[:, there:]).all()


def test_memory_of_lists_does_not_grow_with_the_queries(vectors: Vectors, files: dict[str, Path]) -> None:
    """All candidates of 800 queries at once would take 200 MB."""
    lists, queries = KINDS.get("ivfpq").open(files["ivfpq"], vectors), near(vectors, 800)
    tracemalloc.start()
    try:
        found = lists.search(queries, 100, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6
    one = lists.search(queries[500:501], 100, None)
    np.testing.assert_array_equal(found.rows[500], one.rows[0])


def test_one_thread_gives_the_same_bytes(vectors: Vectors, tmp_path: Path) -> None:
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        hashes = set()
        for attempt in ("a", "b"):
            KINDS.get("hnsw").build(vectors[:2000], tmp_path / attempt)
            hashes.add(hashlib.sha256((tmp_path / attempt).read_bytes()).hexdigest())
    finally:
        faiss.omp_set_num_threads(threads)
    assert len(hashes) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_file_of_other_vectors_is_refused(vectors: Vectors, files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"graph\.faiss"):
        KINDS.get("hnsw").open(files["hnsw"], vectors[:-1])
    (tmp_path / "graph.faiss").write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match=r"graph\.faiss"):
        KINDS.get("hnsw").open(tmp_path / "graph.faiss", vectors)


def test_without_faiss_the_extra_is_named(vectors: Vectors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"clocs\[search\]"):
        KINDS.get("hnsw").build(vectors, tmp_path / "graph.faiss")
