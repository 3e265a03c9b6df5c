"""Pooling compared with a loop over groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.metrics.pooling import pool, pool_truth


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 20), st.integers(0, 2**32))
def test_a_group_is_the_mean_and_the_union_of_its_rows(rows: int, classes: int, limit: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = random.integers(-limit, limit, rows)
    values, truth = random.normal(size=(rows, classes)), random.random((rows, classes)) < 0.3
    unique, means = pool(values, groups)
    unique_again, unions = pool_truth(truth, groups)
    assert unique.tolist() == unique_again.tolist() == sorted(set(groups.tolist()))
    for index, group in enumerate(unique):
        members = [row for row in range(rows) if groups[row] == group]
        np.testing.assert_allclose(means[index], [np.mean(values[members, k]) for k in range(classes)], atol=1e-12)
        assert unions[index].tolist() == [any(truth[row, k] for row in members) for k in range(classes)]


def test_single_precision_is_summed_in_double() -> None:
    values = np.full((100_000, 1), 0.1, np.float32)
    _, means = pool(values, np.zeros(len(values), np.int64))
    assert means.dtype == np.float64
    assert means[0, 0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_no_rows_give_no_groups() -> None:
    unique, means = pool(np.empty((0, 3)), np.empty(0, np.int64))
    assert (unique.shape, means.shape) == ((0,), (0, 3))


def test_groups_of_another_length_are_rejected() -> None:
    with pytest.raises(ValueError, match="groups"):
        pool(np.ones((3, 2)), np.zeros(4, np.int64))
    with pytest.raises(ValueError, match=r"\(N, K\)"):
        pool_truth(np.ones(3, bool), np.zeros(3, np.int64))
