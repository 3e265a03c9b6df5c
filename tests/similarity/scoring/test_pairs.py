"""Pairs: every one once where there are few, and a fair draw where there are many.

Distances are held against a literal version, scipy's, and separations that are known; verification against cosines one
by one and an equal error rate in closed form.
"""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform
from scipy.special import betainc
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from clocs.core.errors import ConfigError
from clocs.similarity.scoring.pairs import (
    PAIRS_PER_BLOCK,
    different_patient_pairs,
    pair_cosines,
    pair_distances,
    pair_weights,
    patient_distances,
    same_patient_pairs,
    verify_patients,
)
from clocs.similarity.segments import Segments, unit_length


@settings(max_examples=80)
@given(st.lists(st.integers(0, 4), min_size=0, max_size=25))
def test_all_pairs_where_there_are_few(owners: list[int]) -> None:
    patient = np.array(owners, np.int64) * 11
    every = list(itertools.combinations(range(len(owners)), 2))
    for found, same in ((same_patient_pairs(patient), True), (different_patient_pairs(patient), False)):
        pairs = [tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in found), strict=True)]
        expected = [pair for pair in every if (owners[pair[0]] == owners[pair[1]]) == same]
        assert sorted(pairs) == expected


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=25))
def test_rows_of_one_recording_can_be_excluded_from_pairs(rows: list[tuple[int, int]]) -> None:
    patient, recording = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    found = same_patient_pairs(patient, exclude_within=recording)
    pairs = [tuple(sorted(pair)) for pair in zip(*(side.tolist() for side in found), strict=True)]
    every = itertools.combinations(range(len(rows)), 2)
    assert sorted(pairs) == [(i, j) for i, j in every if rows[i][0] == rows[j][0] and rows[i][1] != rows[j][1]]


def test_a_balanced_sample_includes_every_patient() -> None:
    """One patient has an hour in segments of 5 s, fifty others have two each."""
    patient = np.concatenate([np.zeros(720, np.int64), np.repeat(np.arange(1, 51), 2)])
    plain, balance_patients = (
        same_patient_pairs(patient, max_pairs=1000, balance_patients=balance_patients)
        for balance_patients in (False, True)
    )
    assert len(np.unique(patient[plain[0]])) < 10
    counts = np.bincount(patient[balance_patients[0]])
    assert counts.tolist() == [1000 // 51] + [1] * 50
    assert len({*zip(*(side.tolist() for side in balance_patients), strict=True)}) == counts.sum()
    recording = np.concatenate([[1], np.zeros(719, np.int64), np.tile([0, 1], 50)])
    exclude_within = same_patient_pairs(patient, exclude_within=recording, max_pairs=100, balance_patients=True)
    assert np.bincount(patient[exclude_within[0]]).tolist() == [1, *[1] * 50]
    assert (recording[exclude_within[0]] != recording[exclude_within[1]]).all()


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=12, max_size=60), st.integers(1, 20))
def test_a_sample_has_the_requested_type_and_size(owners: list[int], max_pairs: int) -> None:
    patient = np.array(owners, np.int64)
    total = sum(owners.count(one) * (owners.count(one) - 1) // 2 for one in set(owners))
    first, second = same_patient_pairs(patient, max_pairs=max_pairs)
    assert len(first) == min(max_pairs, total)
    assert len({*zip(first.tolist(), second.tolist(), strict=True)}) == len(first), "none twice"
    assert (patient[first] == patient[second]).all()
    assert (first != second).all()
    first, second = different_patient_pairs(patient, max_pairs=max_pairs)
    assert (patient[first] != patient[second]).all()
    assert len(first) == (max_pairs if len(set(owners)) > 1 else 0)


def test_a_draw_is_even_over_pairs_and_repeatable() -> None:
    """Among 30 rows of ten patients, all pairs of the same type are equally probable."""
    patient = np.repeat(np.arange(10), 3)
    counts: Counter[tuple[int, int]] = Counter()
    for seed in range(400):
        counts.update(
            zip(*(side.tolist() for side in same_patient_pairs(patient, max_pairs=10, seed=seed)), strict=True)
        )
    assert len(counts) == 30
    expected = 400 * 10 / 30
    assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)
    first, second = different_patient_pairs(np.repeat(np.arange(10), 30), max_pairs=40_000)
    between = np.bincount(10 * (first // 30) + second // 30, minlength=100).reshape(10, 10)
    assert (np.diag(between) == 0).all()
    assert np.abs(between[~np.eye(10, dtype=bool)] - 40_000 / 90).max() < 5 * np.sqrt(40_000 / 90)
    for draw in (same_patient_pairs, different_patient_pairs):
        once, again, other = (draw(patient, max_pairs=10, seed=seed) for seed in (1, 1, 2))
        assert np.array_equal(once, again)
        assert not np.array_equal(once, other)


def test_large_numbers_are_exact() -> None:
    """A patient with 200,000 rows has 2e10 pairs; those drawn are still pairs of different rows."""
    first, second = same_patient_pairs(np.zeros(200_000, np.int64), max_pairs=5_000)
    assert (first < second).all()
    assert second.max() > 199_000
    assert len(first) == 5_000


def test_weights_are_draws_of_patients() -> None:
    """Two rows of patient 5, three of 7, one of 9: drawn 2, 3 and 0 times."""
    patient = np.array([5, 7, 5, 7, 9, 7])
    own, other = same_patient_pairs(patient), different_patient_pairs(patient)
    times = {5: 2.0, 7: 3.0, 9: 0.0}
    count, weight = pair_weights(patient, own, other)
    assert count == 3
    drawn = [times[int(patient[one])] for one in own[0]]
    drawn += [times[int(patient[one])] * times[int(patient[two])] for one, two in zip(*other, strict=True)]
    assert weight(np.array([2.0, 3.0, 0.0])).tolist() == drawn
    _, balance_patients = pair_weights(patient, own, other, balance_patients=True)
    weighed = balance_patients(np.ones(3))
    for who, pairs in ((5, own), (7, own)):
        mine = [place for place, one in enumerate(pairs[0]) if patient[one] == who]
        assert weighed[mine].sum() == pytest.approx(1), "a patient weighs 1"
    both = [{int(patient[one]), int(patient[two])} for one, two in zip(*other, strict=True)]
    for couple in ({5, 7}, {5, 9}, {7, 9}):
        mine = [len(own[0]) + place for place, pair in enumerate(both) if pair == couple]
        assert weighed[mine].sum() == pytest.approx(1), "and so do two"


def test_all_distances_where_there_are_few() -> None:
    """Against scipy's matrix and scikit-learn's AUC."""
    random = np.random.default_rng(0)
    patient = random.integers(0, 12, 60)
    values = random.normal(size=(60, 4)) + 2 * random.normal(size=(12, 4))[patient]
    found = patient_distances(values, patient, replicates=50)
    matrix, upper = squareform(pdist(values)), np.triu_indices(60, 1)
    lengths, same = matrix[upper], (patient[:, None] == patient)[upper]
    np.testing.assert_allclose(np.sort(found.intra), np.sort(lengths[same]))
    np.testing.assert_allclose(np.sort(found.inter), np.sort(lengths[~same]))
    assert found.separation.value == pytest.approx(roc_auc_score(~same, lengths))
    told = found.as_dict()
    assert told["intra"]["mean"] == pytest.approx(lengths[same].mean())
    assert told["inter"]["quantiles"]["0.5"] == pytest.approx(np.median(lengths[~same]))
    assert told["inter"]["pairs"] == (~same).sum()
    json.dumps(told, allow_nan=False)


def test_a_sample_is_near_all_of_them() -> None:
    random = np.random.default_rng(1)
    patient = np.repeat(np.arange(100), 5)
    values = random.normal(size=(500, 5)) + random.normal(size=(100, 5))[patient]
    whole = patient_distances(values, patient, max_pairs=10**7, replicates=2)
    some = patient_distances(values, patient, max_pairs=800, replicates=2)
    assert (len(whole.intra), len(whole.inter)) == (100 * 10, 500 * 499 // 2 - 100 * 10)
    assert (len(some.intra), len(some.inter)) == (800, 800)
    for name in ("intra", "inter"):
        known, drawn = getattr(whole, name), getattr(some, name)
        assert drawn.mean() == pytest.approx(known.mean(), abs=4 * known.std() / math.sqrt(800))
    assert some.separation.value == pytest.approx(whole.separation.value, abs=0.05)
    again = patient_distances(values, patient, max_pairs=800, replicates=2)
    assert np.array_equal(some.inter, again.inter)


def test_the_separation_of_a_line_is_known() -> None:
    """One dimension, patients far apart with variance V: an inter-patient difference has variance 2 + 2 V, an
    intra-patient one 2, so the longer one is told by the angle whose tangent is the ratio of deviations.
    """
    random = np.random.default_rng(2)
    for spread in (0.0, 1.0, 3.0):
        patient = np.repeat(np.arange(3000), 2)
        values = (random.normal(size=6000) + spread * random.normal(size=3000)[patient])[:, None]
        found = patient_distances(values, patient, max_pairs=20_000, replicates=30)
        expected = 2 / math.pi * math.atan(math.sqrt(1 + spread**2))
        assert found.separation.low - 0.01 < expected < found.separation.high + 0.01


def test_chunks_make_no_difference_and_bound_the_memory() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(500, 64)).astype(np.float32)
    first, second = random.integers(0, 500, (2, 4 * PAIRS_PER_BLOCK + 5))
    tracemalloc.start()
    found = pair_distances(values, first, second)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * PAIRS_PER_BLOCK * 64 * 4, "all pairs at once would take more"
    np.testing.assert_allclose(found, np.sqrt(((values[first] - values[second]) ** 2).sum(1)), rtol=1e-5)


@pytest.mark.parametrize("patient", [[0, 1, 2], [4, 4, 4]])
def test_both_kinds_of_pairs_are_needed(patient: list[int]) -> None:
    with pytest.raises(ConfigError, match="two embeddings, and at least two patients"):
        patient_distances(np.eye(3), np.array(patient))


def test_cosines_are_those_of_each_pair() -> None:
    random = np.random.default_rng(0)
    values = unit_length(random.normal(size=(50, 7)))
    first, second = random.integers(0, 50, (2, PAIRS_PER_BLOCK + 9))
    found = pair_cosines(values, (first, second))
    expected = [
        sum(a * b for a, b in zip(values[one], values[two], strict=True))
        for one, two in zip(first[:40], second[:40], strict=True)
    ]
    np.testing.assert_allclose(found[:40], expected, atol=1e-6)
    np.testing.assert_allclose(found[-9:], (values[first[-9:]] * values[second[-9:]]).sum(1), atol=1e-6)


def plane(
    angle: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return unit_length(np.stack([np.cos(angle), np.sin(angle)], axis=1))


def test_the_error_rate_of_known_angles() -> None:
    """In the plane: two segments of a patient are a normal angle of 0.3 apart, two of others a uniform one up to pi.

    Cosine falls with the angle, so the threshold is the angle t at which t / pi, the share of impostors within it,
    equals the share of genuine pairs beyond it.
    """
    random = np.random.default_rng(1)
    start, step = random.uniform(0, 2 * math.pi, 4000), random.normal(0, 0.3, 4000)
    patient = np.repeat(np.arange(4000), 2)
    angle = np.stack([start, start + step], axis=1).ravel()
    found = verify_patients(Segments(plane(angle), patient, patient), replicates=50)
    low, high = 0.0, math.pi
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / math.pi < 2 * norm.sf(middle / 0.3) else (low, middle)
    assert found is not None
    sampling_rate = found["equal_error_rate"]
    assert sampling_rate["value"] == pytest.approx(low / math.pi, abs=0.006)
    assert sampling_rate["low"] < low / math.pi < sampling_rate["high"]
    assert found["genuine_pairs"] == 4000
    json.dumps(found, allow_nan=False)


def test_nothing_shared_is_guessing_and_nothing_else_is_perfect() -> None:
    """Random directions in many dimensions; and vectors that are the patient's alone."""
    random = np.random.default_rng(2)
    patient = np.repeat(np.arange(600), 3)
    guessing = verify_patients(Segments(unit_length(random.normal(size=(1800, 10))), patient, patient), replicates=30)
    own = unit_length(random.normal(size=(600, 10)))
    perfect = verify_patients(Segments(own[patient], patient, patient), replicates=30)
    assert guessing is not None
    assert perfect is not None
    assert guessing["equal_error_rate"]["low"] - 0.005 < 0.5 < guessing["equal_error_rate"]["high"] + 0.005
    assert perfect["equal_error_rate"]["value"] < 0.001


def test_the_rate_of_random_directions_around_a_patient() -> None:
    """Dimension 3, genuine pairs exactly 60 degrees apart: impostors within it are a cap's share of the sphere, which
    the incomplete beta function gives; a threshold just inside catches none of the genuine ones.
    """
    random = np.random.default_rng(3)
    first = unit_length(random.normal(size=(3000, 3)))
    across = unit_length(np.cross(first, random.normal(size=(3000, 3))))
    second = unit_length(first / 2 + across * math.sqrt(3) / 2)
    values = np.stack([first, second], axis=1).reshape(-1, 3)
    patient = np.repeat(np.arange(3000), 2)
    found = verify_patients(Segments(values, patient, patient), replicates=5)
    cap = betainc(1, 0.5, math.sin(math.pi / 3) ** 2) / 2
    assert cap == pytest.approx(0.25)
    assert found is not None
    # The genuine pairs are one cliff of the curve: it is crossed at the cap's share of false acceptances.
    assert found["equal_error_rate"]["value"] == pytest.approx(cap, abs=0.01)


def test_patients_weigh_the_same_however_long_their_recording() -> None:
    """A hundred patients with two segments that are alike, one with a hundred that are not."""
    random = np.random.default_rng(4)
    alike = np.repeat(unit_length(random.normal(size=(100, 16))), 2, axis=0)
    values = np.concatenate([alike, unit_length(random.normal(size=(100, 16)))])
    patient = np.concatenate([np.repeat(np.arange(100), 2), np.full(100, 100)])
    found = verify_patients(Segments(values, patient, patient), replicates=20)
    assert found is not None
    assert found["genuine_pairs"] == 100 + 4950
    assert found["equal_error_rate"]["value"] < 0.02, "by pairs, it would be near one half"


def test_long_recordings_leave_room_for_others_where_pairs_are_drawn() -> None:
    """One of twenty patients has a whole day, which provides nearly all pairs, within one of two recordings."""
    random = np.random.default_rng(6)
    patient = np.concatenate([np.zeros(3000, np.int64), np.repeat(np.arange(1, 20), 2)])
    record = np.concatenate([[0], np.ones(2999, np.int64), np.arange(2, 40)])
    values = unit_length(random.normal(size=(20, 16)))[patient]
    for across in (False, True):
        found = verify_patients(
            Segments(values, record, patient), across_recordings=across, max_pairs=400, replicates=20
        )
        assert found is not None
        assert found["genuine_pairs"] == 20 + 19
        assert found["equal_error_rate"]["value"] < 0.02


def test_across_recordings_pairs_are_of_two() -> None:
    """Segments of a recording are equal, those of a patient's two recordings have nothing in common."""
    random = np.random.default_rng(5)
    record = np.repeat(np.arange(200), 2)
    values = unit_length(random.normal(size=(200, 8)))[record]
    segments = Segments(values, record, record // 2)
    across = verify_patients(segments, across_recordings=True, replicates=20)
    assert across is not None
    assert across["genuine_pairs"] == 100 * 4
    assert across["equal_error_rate"]["value"] == pytest.approx(0.5, abs=0.08)
    single = Segments(values, record, record)
    assert verify_patients(single, across_recordings=True) is None
    assert verify_patients(Segments(values[:2], record[:2], record[:2])) is None
