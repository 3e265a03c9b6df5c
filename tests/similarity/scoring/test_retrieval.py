"""Agreement and finding a patient again, against literal versions.

Perfect and meaningless embeddings, ties, chance in closed form and by shuffling, examples.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.similarity.scoring.retrieval import (
    MIN_QUERIES,
    QUERIES_PER_BLOCK,
    neighbor_agreement,
    neighbor_label_shares,
    rank_own_segments,
    retrieve_own_segments,
)
from clocs.similarity.segments import Ints, Segments, unit_length

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


def literal(values: Floats, labels: Bools, k: int) -> dict[str, Any]:
    """Patient by patient, neighbours sorted by cosine; chance by going through all others."""
    count, classes = labels.shape
    by_class: dict[int, list[float]] = {place: [] for place in range(classes)}
    chance_class: dict[int, list[float]] = {place: [] for place in range(classes)}
    micro, chance_micro = [], []
    for query in range(count):
        others = [other for other in range(count) if other != query]
        cosine = {
            other: float(values[query] @ values[other] / np.linalg.norm(values[query]) / np.linalg.norm(values[other]))
            for other in others
        }
        nearest = sorted(others, key=lambda other: -cosine[other])[:k]
        own = np.flatnonzero(labels[query])
        shares = [np.mean([labels[other, place] for other in nearest]) for place in own]
        prevalence = [np.mean([labels[other, place] for other in others]) for place in own]
        for place, share, chance in zip(own, shares, prevalence, strict=True):
            by_class[int(place)].append(float(share))
            chance_class[int(place)].append(float(chance))
        if len(own):
            micro.append(np.mean(shares))
            chance_micro.append(np.mean(prevalence))
    return {
        "classes": [np.mean(by_class[place]) if by_class[place] else None for place in range(classes)],
        "macro": np.mean([np.mean(found) for found in by_class.values() if found]),
        "micro": np.mean(micro),
        "chance_macro": np.mean([np.mean(found) for found in chance_class.values() if found]),
        "chance_micro": np.mean(chance_micro),
    }


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4))
def test_equal_to_a_literal_version(seed: int, k: int, classes: int) -> None:
    """Several labels, one, or none a patient."""
    random = np.random.default_rng(seed)
    values, labels = random.normal(size=(20, 5)), random.random((20, classes)) < 0.4
    labels[0, 0] = True
    names = [f"class {place}" for place in range(classes)]
    found, expected = neighbor_agreement(values, labels, names, k=k, replicates=5), literal(values, labels, k)
    each = [found["classes"][name]["precision"]["value"] for name in names]
    assert each == [value if value is None else pytest.approx(value) for value in expected["classes"]]
    for kind in ("macro", "micro"):
        assert found[kind]["value"] == pytest.approx(expected[kind])
        assert found["chance"][kind] == pytest.approx(expected[f"chance_{kind}"])
    assert found["queries"] == int(labels.any(1).sum())
    json.dumps(found, allow_nan=False)


def test_blocks_make_no_difference() -> None:
    random = np.random.default_rng(0)
    values, labels = (
        random.normal(size=(2 * QUERIES_PER_BLOCK + 3, 4)),
        random.random((2 * QUERIES_PER_BLOCK + 3, 2)) < 0.3,
    )
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    nearest = np.argsort(-cosine, axis=1)[:, :7]
    np.testing.assert_allclose(neighbor_label_shares(values, labels, 7), labels[nearest].mean(1), atol=1e-9)


def test_a_perfect_embedding_agrees_always() -> None:
    labels = np.eye(3, dtype=bool)[np.repeat(np.arange(3), 20)]
    found = neighbor_agreement(labels.astype(float), labels, ("a", "b", "c"), replicates=20)
    assert found["macro"]["value"] == found["micro"]["value"] == 1
    assert found["chance"]["macro"] == pytest.approx(19 / 59)


def test_a_meaningless_embedding_agrees_as_often_as_prevalence() -> None:
    """Intervals hold the prevalence; over seeds, the mean is the prevalence and most intervals hold it."""
    labels = np.eye(3, dtype=bool)[np.repeat(np.arange(3), (240, 120, 40))]
    held, values = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        found = neighbor_agreement(random.normal(size=(400, 16)), labels, ("a", "b", "c"), replicates=100)
        values.append(found["micro"]["value"])
        held.append(found["micro"]["low"] <= found["chance"]["micro"] <= found["micro"]["high"])
    assert np.mean(values) == pytest.approx(found["chance"]["micro"], abs=0.006)
    assert np.mean(held) > 0.8


def test_a_constant_encoder_gives_exactly_the_prevalence() -> None:
    """All tie: whom a sort would have put first must not matter, here those of the same class."""
    labels = np.eye(2, dtype=bool)[np.repeat(np.arange(2), (30, 12))]
    found = neighbor_agreement(np.tile([1.0, 0.0], (42, 1)), labels, ("a", "b"), replicates=20)
    for kind in ("macro", "micro"):
        assert found[kind]["value"] == pytest.approx(found["chance"][kind])


def test_ties_for_the_last_neighbour_are_averaged() -> None:
    """One of two neighbours is certain; four others tie for the second, and one of them has the class."""
    angles = np.deg2rad([0, 5, 30, 30, -30, -30, 170])
    values = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.array([[True], [True], [True], [False], [False], [False], [False]])
    assert neighbor_label_shares(np.round(values, 6), labels, 2)[0, 0] == pytest.approx((1 + 0.25) / 2)


def test_a_class_without_patients_is_undefined() -> None:
    labels = np.zeros((20, 2), bool)
    labels[:10, 0] = True
    found = neighbor_agreement(np.random.default_rng(0).normal(size=(20, 3)), labels, ("a", "b"), k=3, replicates=20)
    assert found["classes"]["b"] == {
        "patients": 0,
        "precision": {"value": None, "low": None, "high": None},
        "chance": None,
    }
    assert found["macro"]["value"] == found["classes"]["a"]["precision"]["value"]


def test_few_patients_have_no_intervals() -> None:
    """Two drawn again are always the same two; 20 queries have no interval of their mean."""
    random = np.random.default_rng(2)
    labels = np.zeros((60, 2), bool)
    labels[:2, 0], labels[2:20, 1] = True, True
    found = neighbor_agreement(random.normal(size=(60, 3)), labels, ("rare", "common"), k=3, replicates=50)
    ends = {name: (one["precision"]["low"], one["precision"]["high"]) for name, one in found["classes"].items()}
    assert ends["rare"] == (None, None)
    assert None not in ends["common"]
    assert found["macro"]["low"] is found["micro"]["high"] is None


def test_intervals_shrink_with_more_patients() -> None:
    widths = []
    for count in (60, 960):
        random = np.random.default_rng(1)
        labels = np.eye(2, dtype=bool)[np.arange(count) % 2]
        values = random.normal(size=(count, 8)) + 0.8 * labels[:, :1]
        micro = neighbor_agreement(values, labels, ("a", "b"), replicates=200)["micro"]
        assert micro["low"] < micro["value"] < micro["high"]
        widths.append(micro["high"] - micro["low"])
    assert 2 < widths[0] / widths[1] < 8, "about the square root of 16"


@pytest.mark.parametrize("k", [0, 5, 9])
def test_there_must_be_enough_patients(k: int) -> None:
    with pytest.raises(ConfigError, match="k from 1 to 4 for 5 patients"):
        neighbor_label_shares(np.eye(5), np.ones((5, 1), bool), k)


def make_segments(random: np.random.Generator, count: int, patients: int, *, own: float = 0.0) -> Segments:
    """``count`` segments of about so many patients with two recordings each, ``own`` of each vector the patient's."""
    record = np.sort(random.integers(0, 2 * patients, count))
    patient = record // 2
    values = random.normal(size=(count, 6)) + own * random.normal(size=(patients, 6))[patient]
    return Segments(unit_length(values), record, patient)


def literal_ranks(segments: Segments, across: bool) -> dict[int, float]:
    """Compare the first segment of each patient with every other, one by one."""
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
    found, expected = retrieve_own_segments(segments, across_recordings=across), literal_ranks(segments, across)
    assert found is not None
    assert {one["patient"]: one["rank"] for one in found["examples"]} == pytest.approx(expected)
    assert set(found) == {"patients", "segments", "examples"}, "no statistic of so few"


@pytest.mark.parametrize("across", [False, True])
def test_many_patients_give_a_statistic(across: bool) -> None:
    segments = make_segments(np.random.default_rng(1), 400, 100, own=2.0)
    ranks = np.array(list(literal_ranks(segments, across).values()))
    found = retrieve_own_segments(segments, across_recordings=across, replicates=200)
    assert found is not None
    assert found["patients"] == len(ranks) >= MIN_QUERIES
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
        rank, own, others = rank_own_segments(segments, query)
        reached.append([(rank <= 1).mean(), (rank <= 10).mean()])
    found = retrieve_own_segments(segments, replicates=5)
    assert found is not None
    assert own.tolist() == (np.arange(40) % 5 + 1).tolist()
    assert (own + others == len(patient) - 1).all()
    chance = [found["chance"]["rank_1"], found["chance"]["rank_10"]]
    assert chance[0] == pytest.approx((own / (own + others)).mean())
    np.testing.assert_allclose(np.mean(reached, axis=0), chance, atol=4 * np.std(reached, axis=0).max() / np.sqrt(400))


def test_a_collapsed_encoder_retrieves_nothing() -> None:
    """All tie, and a tie is no find."""
    patient = np.repeat(np.arange(40), 2)
    found = retrieve_own_segments(
        Segments(np.tile(np.array([1, 0], np.float32), (80, 1)), patient, patient), replicates=5
    )
    assert found is not None
    assert found["rank_1"]["value"] == found["rank_10"]["value"] == 0
    assert found["median_rank"] == 1 + 78 / 2


def test_no_patient_with_two_segments_gives_none() -> None:
    alone = np.arange(50)
    segments = Segments(unit_length(np.random.default_rng(0).normal(size=(50, 3))), alone, alone)
    assert retrieve_own_segments(segments) is None
    twice = np.repeat(alone, 2)
    pairs = Segments(unit_length(np.random.default_rng(0).normal(size=(100, 3))), twice, twice)
    assert retrieve_own_segments(pairs) is not None
    assert retrieve_own_segments(pairs, across_recordings=True) is None
