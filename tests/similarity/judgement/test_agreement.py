"""Agreement: a literal slow version, perfect and meaningless embeddings, ties."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.similarity.judgement.agreement import BLOCK, neighbour_agreement, neighbour_shares

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
    found, expected = neighbour_agreement(values, labels, names, k=k, replicates=5), literal(values, labels, k)
    each = [found["classes"][name]["precision"]["value"] for name in names]
    assert each == [value if value is None else pytest.approx(value) for value in expected["classes"]]
    for kind in ("macro", "micro"):
        assert found[kind]["value"] == pytest.approx(expected[kind])
        assert found["chance"][kind] == pytest.approx(expected[f"chance_{kind}"])
    assert found["queries"] == int(labels.any(1).sum())
    json.dumps(found, allow_nan=False)


def test_blocks_make_no_difference() -> None:
    random = np.random.default_rng(0)
    values, labels = random.normal(size=(2 * BLOCK + 3, 4)), random.random((2 * BLOCK + 3, 2)) < 0.3
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    nearest = np.argsort(-cosine, axis=1)[:, :7]
    np.testing.assert_allclose(neighbour_shares(values, labels, 7), labels[nearest].mean(1), atol=1e-9)


def test_a_perfect_embedding_agrees_always() -> None:
    labels = np.eye(3, dtype=bool)[np.repeat(np.arange(3), 20)]
    found = neighbour_agreement(labels.astype(float), labels, ("a", "b", "c"), replicates=20)
    assert found["macro"]["value"] == found["micro"]["value"] == 1
    assert found["chance"]["macro"] == pytest.approx(19 / 59)


def test_a_meaningless_embedding_agrees_as_often_as_prevalence() -> None:
    """Intervals hold the prevalence; over seeds, the mean is the prevalence and most intervals hold it."""
    labels = np.eye(3, dtype=bool)[np.repeat(np.arange(3), (240, 120, 40))]
    held, values = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        found = neighbour_agreement(random.normal(size=(400, 16)), labels, ("a", "b", "c"), replicates=100)
        values.append(found["micro"]["value"])
        held.append(found["micro"]["low"] <= found["chance"]["micro"] <= found["micro"]["high"])
    assert np.mean(values) == pytest.approx(found["chance"]["micro"], abs=0.006)
    assert np.mean(held) > 0.8


def test_an_encoder_that_says_nothing_gives_prevalence_exactly() -> None:
    """All tie: whom a sort would have put first must not matter, here those of the same class."""
    labels = np.eye(2, dtype=bool)[np.repeat(np.arange(2), (30, 12))]
    found = neighbour_agreement(np.tile([1.0, 0.0], (42, 1)), labels, ("a", "b"), replicates=20)
    for kind in ("macro", "micro"):
        assert found[kind]["value"] == pytest.approx(found["chance"][kind])


def test_ties_for_the_last_place_are_shared() -> None:
    """Of two neighbours one is sure; four others tie for the second place, and one of them has the class."""
    angles = np.deg2rad([0, 5, 30, 30, -30, -30, 170])
    values = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.array([[True], [True], [True], [False], [False], [False], [False]])
    assert neighbour_shares(np.round(values, 6), labels, 2)[0, 0] == pytest.approx((1 + 0.25) / 2)


def test_a_class_nobody_has_is_undefined() -> None:
    labels = np.zeros((20, 2), bool)
    labels[:10, 0] = True
    found = neighbour_agreement(np.random.default_rng(0).normal(size=(20, 3)), labels, ("a", "b"), k=3, replicates=20)
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
    found = neighbour_agreement(random.normal(size=(60, 3)), labels, ("rare", "common"), k=3, replicates=50)
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
        micro = neighbour_agreement(values, labels, ("a", "b"), replicates=200)["micro"]
        assert micro["low"] < micro["value"] < micro["high"]
        widths.append(micro["high"] - micro["low"])
    assert 2 < widths[0] / widths[1] < 8, "about the square root of 16"


@pytest.mark.parametrize("k", [0, 5, 9])
def test_there_must_be_enough_patients(k: int) -> None:
    with pytest.raises(ConfigError, match="neighbours of 5 patients"):
        neighbour_shares(np.eye(5), np.ones((5, 1), bool), k)
