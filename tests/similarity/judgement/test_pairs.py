"""Pairs: every one once where there are few, and a fair draw where there are many."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.similarity.judgement.pairs import other_pairs, own_pairs, pair_weights


@settings(max_examples=80)
@given(st.lists(st.integers(0, 4), min_size=0, max_size=25))
def test_all_pairs_where_there_are_few(owners: list[int]) -> None:
    patient = np.array(owners, np.int64) * 11
    every = list(itertools.combinations(range(len(owners)), 2))
    for found, same in ((own_pairs(patient), True), (other_pairs(patient), False)):
        pairs = [tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in found), strict=True)]
        expected = [pair for pair in every if (owners[pair[0]] == owners[pair[1]]) == same]
        assert sorted(pairs) == expected


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=25))
def test_rows_of_one_recording_make_no_pair_where_they_are_to_be_apart(rows: list[tuple[int, int]]) -> None:
    patient, recording = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    found = own_pairs(patient, apart=recording)
    pairs = [tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in found), strict=True)]
    every = itertools.combinations(range(len(rows)), 2)
    assert sorted(pairs) == [(i, j) for i, j in every if rows[i][0] == rows[j][0] and rows[i][1] != rows[j][1]]


def test_an_even_draw_leaves_nobody_out() -> None:
    """One patient has an hour in segments of 5 s, fifty others have two each."""
    patient = np.concatenate([np.zeros(720, np.int64), np.repeat(np.arange(1, 51), 2)])
    plain, even = (own_pairs(patient, most=1000, even=even) for even in (False, True))
    assert len(np.unique(patient[plain[0]])) < 10
    counts = np.bincount(patient[even[0]])
    assert counts.tolist() == [1000 // 51] + [1] * 50
    assert len({*zip(*(side.tolist() for side in even), strict=True)}) == counts.sum()
    recording = np.concatenate([[1], np.zeros(719, np.int64), np.tile([0, 1], 50)])
    apart = own_pairs(patient, apart=recording, most=100, even=True)
    assert np.bincount(patient[apart[0]]).tolist() == [1, *[1] * 50]
    assert (recording[apart[0]] != recording[apart[1]]).all()


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=60), st.integers(1, 20))
def test_a_draw_has_the_wanted_kind_and_number(owners: list[int], most: int) -> None:
    patient = np.array(owners, np.int64)
    total = sum(owners.count(one) * (owners.count(one) - 1) // 2 for one in set(owners))
    first, second = own_pairs(patient, most=most)
    assert len(first) == min(most, total)
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == len(first), "none twice"
    assert (patient[first] == patient[second]).all()
    assert (first != second).all()
    first, second = other_pairs(patient, most=most)
    assert (patient[first] != patient[second]).all()
    assert len(first) == (most if len(set(owners)) > 1 else 0)


def test_a_draw_is_even_over_pairs_and_repeatable() -> None:
    """Of 30 rows of ten patients, each own pair and each other pair is as probable as the next of its kind."""
    patient = np.repeat(np.arange(10), 3)
    counts: Counter[tuple[int, int]] = Counter()
    for seed in range(400):
        counts.update(zip(*(side.tolist() for side in own_pairs(patient, most=10, seed=seed)), strict=True))
    assert len(counts) == 30
    expected = 400 * 10 / 30
    assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)
    first, second = other_pairs(np.repeat(np.arange(10), 30), most=40_000)
    between = np.bincount(10 * (first // 30) + second // 30, minlength=100).reshape(10, 10)
    assert (np.diag(between) == 0).all()
    assert np.abs(between[~np.eye(10, dtype=bool)] - 40_000 / 90).max() < 5 * np.sqrt(40_000 / 90)
    for draw in (own_pairs, other_pairs):
        once, again, other = (draw(patient, most=10, seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(once, again)
        assert not np.array_equal(once, other)


def test_large_numbers_are_exact() -> None:
    """A patient with 200,000 rows has 2e10 pairs; those drawn are still pairs of different rows."""
    first, second = own_pairs(np.zeros(200_000, np.int64), most=5_000)
    assert (first < second).all()
    assert second.max() > 199_000
    assert len(first) == 5_000


def test_weights_are_draws_of_patients() -> None:
    """Two rows of patient 5, three of 7, one of 9: drawn 2, 3 and 0 times."""
    patient = np.array([5, 7, 5, 7, 9, 7])
    own, other = own_pairs(patient), other_pairs(patient)
    times = {5: 2.0, 7: 3.0, 9: 0.0}
    count, weight = pair_weights(patient, own, other)
    assert count == 3
    drawn = [times[int(patient[one])] for one in own[0]]
    drawn += [times[int(patient[one])] * times[int(patient[two])] for one, two in zip(*other, strict=True)]
    assert weight(np.array([2.0, 3.0, 0.0])).tolist() == drawn
    _, even = pair_weights(patient, own, other, even=True)
    weighed = even(np.ones(3))
    for who, pairs in ((5, own), (7, own)):
        mine = [place for place, one in enumerate(pairs[0]) if patient[one] == who]
        assert weighed[mine].sum() == pytest.approx(1), "a patient weighs 1"
    both = [{int(patient[one]), int(patient[two])} for one, two in zip(*other, strict=True)]
    for couple in ({5, 7}, {5, 9}, {7, 9}):
        mine = [len(own[0]) + place for place, pair in enumerate(both) if pair == couple]
        assert weighed[mine].sum() == pytest.approx(1), "and so do two"
