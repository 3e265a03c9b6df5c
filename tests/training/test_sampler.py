"""Batches are a function of seed, epoch and step; an epoch takes every item once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from clocs.core.errors import ConfigError
from clocs.training.sampler import AlternatingSampler, PatientSampler, Permutation, RepeatedSampler, ShuffledSampler


@settings(max_examples=60)
@given(size=st.integers(1, 3000), seed=st.integers(0, 2**40))
def test_a_permutation_contains_every_element_once(size: int, seed: int) -> None:
    assert sorted(Permutation(size, seed)(np.arange(size))) == list(range(size))


def test_elements_of_a_permutation_are_computed_independently() -> None:
    """A billion items cost no memory: places are computed one by one."""
    order = Permutation(10**9, 3)
    few = order([0, 1, 999_999_999])
    assert len(set(few.tolist())) == 3
    np.testing.assert_array_equal(order([999_999_999]), few[2:])


def test_permutations_look_random() -> None:
    """Where item 0 and pairs of neighbours fall is uniform, by a chi-squared test."""
    size, tries = 10, 4000
    drawn = np.stack([Permutation(size, seed)(np.arange(size)) for seed in range(tries)])
    for place in (0, 5):
        assert chisquare(np.bincount(drawn[:, place], minlength=size)).pvalue > 1e-4
    step = (drawn[:, 1] - drawn[:, 0]) % size
    assert chisquare(np.bincount(step, minlength=size)[1:]).pvalue > 1e-4


def test_an_epoch_takes_every_item_once_and_the_next_differs() -> None:
    sampler = ShuffledSampler(96, 32, seed=1)
    first = [sampler.batch(0, step) for step in range(sampler.steps)]
    assert sorted(np.concatenate(first)) == list(range(96))
    assert not np.array_equal(first[0], sampler.batch(1, 0))
    np.testing.assert_array_equal(first[2], ShuffledSampler(96, 32, seed=1).batch(0, 2))
    with pytest.raises(ConfigError, match="do not fill a batch"):
        ShuffledSampler(10, 32, seed=0)


@settings(max_examples=30)
@given(
    chosen=st.sets(st.integers(0, 10**9), min_size=8, max_size=80),
    seed=st.integers(0, 99),
    batch_size=st.integers(2, 8),
)
def test_an_epoch_contains_each_chosen_item_once_and_no_other(chosen: set[int], seed: int, batch_size: int) -> None:
    sampler = ShuffledSampler(10**9 + 1, batch_size, seed, np.array(sorted(chosen)))
    drawn = np.concatenate([sampler.batch(0, step) for step in range(sampler.steps)]).tolist()
    assert sampler.steps == len(chosen) // batch_size
    assert len(set(drawn)) == len(drawn) == sampler.steps * batch_size
    assert set(drawn) <= chosen


def test_repeated_passes_contain_every_item_in_different_orders() -> None:
    sampler = RepeatedSampler(ShuffledSampler(96, 32, seed=1), 3)
    epochs = [np.concatenate([sampler.batch(epoch, step) for step in range(sampler.steps)]) for epoch in (0, 1)]
    assert sampler.steps == 9
    for epoch in epochs:
        assert np.bincount(epoch).tolist() == [3] * 96
    passes = np.concatenate(epochs).reshape(6, 96)
    assert len(np.unique(passes, axis=0)) == 6


def test_too_few_chosen_items_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 instances do not fill a batch of 8"):
        ShuffledSampler(100, 8, 0, np.arange(5))


def test_a_batch_has_the_configured_number_of_items_per_patient() -> None:
    patients = np.repeat(np.arange(50), np.arange(50) % 5 + 1)
    sampler = PatientSampler(patients, batch_size=12, per_patient=3, seed=0)
    seen: list[int] = []
    for step in range(sampler.steps):
        batch = sampler.batch(0, step)
        assert len(set(batch.tolist())) == 12
        people, counts = np.unique(patients[batch], return_counts=True)
        assert (counts == 3).all()
        seen += people.tolist()
    assert len(seen) == len(set(seen)), "a patient comes once an epoch"
    with pytest.raises(ConfigError, match="must be 2 or more and divide batch_size=10"):
        PatientSampler(patients, batch_size=10, per_patient=3, seed=0)


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(8, 60), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_stores_alternate_and_each_is_finished_before_it_repeats(sizes: list[int], seed: int) -> None:
    batch, sampler = 8, AlternatingSampler(sizes, 8, seed)
    drawn = [sampler.batch(epoch, step) for epoch in range(3) for step in range(sampler.steps)]
    assert sampler.steps == len(sizes) * (sizes[0] // batch)
    for store, size in enumerate(sizes):
        begin, whole = sum(sizes[:store]), size // batch
        own = drawn[store :: len(sizes)]
        assert len(own) == 3 * (sizes[0] // batch)
        assert all(begin <= items.min() and items.max() < begin + size for items in own)
        for at in range(0, len(own) - whole + 1, whole):
            through = np.concatenate(own[at : at + whole])
            assert len(set(through.tolist())) == whole * batch
