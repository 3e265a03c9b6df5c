"""Finding a patient's other segments: a literal version, chance in closed form and by shuffling, examples."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.similarity.judgement.retrieval import FEWEST, find_own_segments, own_ranks
from clocs.similarity.segments import Ints, Segments, unit_length


def make_segments(random: np.random.Generator, count: int, patients: int, *, own: float = 0.0) -> Segments:
    """``count`` segments of about so many patients with two recordings each, ``own`` of each vector the patient's."""
    record = np.sort(random.integers(0, 2 * patients, count))
    patient = record // 2
    values = random.normal(size=(count, 6)) + own * random.normal(size=(patients, 6))[patient]
    return Segments(unit_length(values), record, patient)


def literal_ranks(segments: Segments, across: bool) -> dict[int, float]:
    """For each patient, the first segment against every other, one by one."""
    found = {}
    for patient in sorted(set(segments.patient.tolist())):
        mine = np.flatnonzero(segments.patient == patient).tolist()
        query = mine[0]
        sought = [
            one for one in mine if one != query and (not across or segments.record[one] != segments.record[query])
        ]
        if not sought:
            continue
        cosine = segments.values @ segments.values[query]
        best = max(cosine[one] for one in sought)
        others = [one for one in range(len(segments)) if segments.patient[one] != patient]
        found[patient] = 1 + sum((cosine[one] > best) + 0.5 * (cosine[one] == best) for one in others)
    return found


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans())
def test_equal_to_a_literal_search(seed: int, across: bool) -> None:
    """With fewer than thirty patients the ranks are told one by one."""
    random = np.random.default_rng(seed)
    segments = make_segments(random, 60, 25, own=float(random.uniform(0, 3)))
    found, expected = find_own_segments(segments, across_recordings=across), literal_ranks(segments, across)
    assert found is not None
    assert {one["patient"]: one["rank"] for one in found["examples"]} == pytest.approx(expected)
    assert set(found) == {"patients", "segments", "examples"}, "no statistic of so few"


@pytest.mark.parametrize("across", [False, True])
def test_many_patients_give_a_statistic(across: bool) -> None:
    segments = make_segments(np.random.default_rng(1), 400, 100, own=2.0)
    ranks = np.array(list(literal_ranks(segments, across).values()))
    found = find_own_segments(segments, across_recordings=across, replicates=200)
    assert found is not None
    assert found["patients"] == len(ranks) >= FEWEST
    assert found["rank_1"]["value"] == pytest.approx((ranks <= 1).mean())
    assert found["rank_10"]["value"] == pytest.approx((ranks <= 10).mean())
    assert found["mean_reciprocal_rank"]["value"] == pytest.approx((1 / ranks).mean())
    assert found["median_rank"] == np.median(ranks)
    low, high = found["rank_1"]["low"], found["rank_1"]["high"]
    share = (ranks <= 1).mean()
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(share * (1 - share) / len(ranks)), rel=0.2)
    json.dumps(found, allow_nan=False)


def test_chance_is_what_shuffled_vectors_reach() -> None:
    """Forty patients with two to six segments each, four hundred shuffles."""
    random = np.random.default_rng(2)
    patient = np.repeat(np.arange(40), np.arange(40) % 5 + 2)
    reached = []
    for _ in range(400):
        segments = Segments(unit_length(random.normal(size=(len(patient), 8))), patient, patient)
        query: Ints = np.unique(patient, return_index=True)[1]
        rank, own, others = own_ranks(segments, query)
        reached.append([(rank <= 1).mean(), (rank <= 10).mean()])
    found = find_own_segments(segments, replicates=5)
    assert found is not None
    assert own.tolist() == (np.arange(40) % 5 + 1).tolist()
    assert (own + others == len(patient) - 1).all()
    chance = [found["chance"]["rank_1"], found["chance"]["rank_10"]]
    assert chance[0] == pytest.approx((own / (own + others)).mean())
    np.testing.assert_allclose(np.mean(reached, axis=0), chance, atol=4 * np.std(reached, axis=0).max() / np.sqrt(400))


def test_a_collapsed_encoder_finds_nobody() -> None:
    """All tie, and a tie is no find."""
    patient = np.repeat(np.arange(40), 2)
    found = find_own_segments(Segments(np.tile(np.array([1, 0], np.float32), (80, 1)), patient, patient), replicates=5)
    assert found is not None
    assert found["rank_1"]["value"] == found["rank_10"]["value"] == 0
    assert found["median_rank"] == 1 + 78 / 2


def test_nobody_with_two_is_none() -> None:
    alone = np.arange(50)
    segments = Segments(unit_length(np.random.default_rng(0).normal(size=(50, 3))), alone, alone)
    assert find_own_segments(segments) is None
    twice = np.repeat(alone, 2)
    pairs = Segments(unit_length(np.random.default_rng(0).normal(size=(100, 3))), twice, twice)
    assert find_own_segments(pairs) is not None
    assert find_own_segments(pairs, across_recordings=True) is None
