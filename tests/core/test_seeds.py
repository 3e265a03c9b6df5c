"""Random generators are equal for equal names and independent otherwise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.seeds import generator

NAMES = st.lists(st.one_of(st.integers(0, 1000), st.sampled_from(["views", "split", "noise"])), max_size=3)


@given(st.integers(0, 2**63), NAMES)
def test_the_same_seed_and_names_give_the_same_numbers(seed: int, names: list[str | int]) -> None:
    assert (
        generator(seed, *names).integers(2**63, size=4).tolist()
        == generator(seed, *names).integers(2**63, size=4).tolist()
    )


@given(st.integers(0, 2**32), st.integers(0, 2**32), NAMES, NAMES)
def test_different_seeds_or_names_give_different_numbers(
    seed: int, other_seed: int, names: list[str | int], other_names: list[str | int]
) -> None:
    if (seed, names) != (other_seed, other_names):
        one, other = generator(seed, *names), generator(other_seed, *other_names)
        assert one.integers(2**63, size=4).tolist() != other.integers(2**63, size=4).tolist()


def test_drawing_from_one_does_not_shift_another() -> None:
    undisturbed = generator(3, "b").random(5)
    first, second = generator(3, "a"), generator(3, "b")
    first.random(1000)
    np.testing.assert_array_equal(second.random(5), undisturbed)


def test_neighbouring_names_are_uncorrelated() -> None:
    """Correlations of independent rows of n normal numbers have a standard deviation of 1/sqrt(n)."""
    rows = np.stack([generator(0, "record", number).standard_normal(1000) for number in range(200)])
    correlations = np.asarray(np.corrcoef(rows))[np.triu_indices(200, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(1000)
    assert abs(correlations.std() * np.sqrt(1000) - 1) < 0.05


def test_another_process_draws_the_same_numbers() -> None:
    """Python's own hash of a string differs between processes, so the seed must not depend on it."""
    code = "from clocs.core.seeds import generator; print(generator(7, 'views', 3).integers(2**63, size=3).tolist())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(generator(7, "views", 3).integers(2**63, size=3).tolist())
