"""Exact search, compared with a literal sort of all cosines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.similarity.index import exact
from clocs.similarity.index.exact import Exact
from clocs.similarity.index.searcher import AllowedRows
from clocs.similarity.segments import Vectors
from tests.similarity.archives import clustered, near


def literal(vectors: Vectors, queries: Vectors, k: int, mask: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Row numbers in the order of their cosines, by numpy's argsort of them all."""
    cosines = queries.astype(np.float64) @ vectors.astype(np.float64).T
    order = np.argsort(-cosines, axis=1, kind="stable")
    return [[int(row) for row in rows if mask[row]][:k] for rows in order]


@settings(max_examples=40)
@given(
    rows=st.integers(1, 3000),
    count=st.integers(1, 5),
    k=st.integers(1, 30),
    share=st.sampled_from([0.0, 0.001, 0.1, 0.6, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_as_a_sort_of_all_cosines(rows: int, count: int, k: int, share: float, seed: int) -> None:
    vectors = clustered(rows, 16, clusters=7, seed=seed)
    queries = near(vectors, count, seed)
    mask = np.random.default_rng(seed).random(rows) < share
    for allowed, row_mask in ((None, np.ones(rows, bool)), (AllowedRows(mask), mask)):
        found = Exact(vectors).search(queries, k, allowed)
        truth = literal(vectors, queries, k, row_mask)
        assert found.rows.shape == found.cosines.shape == (count, k)
        for row, cosine, expected in zip(found.rows, found.cosines, truth, strict=True):
            assert row[: len(expected)].tolist() == expected
            assert (row[len(expected) :] == -1).all()
            assert np.isneginf(cosine[len(expected) :]).all()


def test_many_queries_and_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(3000, 16)
    queries = near(vectors, 20)
    whole = Exact(vectors).search(queries, 5)
    monkeypatch.setattr(exact, "QUERIES_PER_BLOCK", 3)
    monkeypatch.setattr(exact, "COSINES_PER_BLOCK", 1)
    parts = Exact(vectors).search(queries, 5)
    np.testing.assert_array_equal(parts.rows, whole.rows)
    np.testing.assert_allclose(parts.cosines, whole.cosines, atol=1e-6)


def test_no_queries_give_no_hits() -> None:
    assert Exact(clustered(10, 16)).search(np.empty((0, 16), np.float32), 3).rows.shape == (0, 3)


def test_ties_go_to_the_first_rows() -> None:
    vectors = np.repeat(clustered(1, 16), 3000, axis=0)
    found = Exact(vectors).search(vectors[:1], 4)
    assert len(set(found.rows[0].tolist())) == 4
    np.testing.assert_allclose(found.cosines, 1, atol=1e-6)
