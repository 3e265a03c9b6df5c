"""Few labels: nested fractions, whole patients, a draw of its own for each seed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError
from clocs.store.store import open_store
from clocs.training.labels import sample_items, sample_patients

FRACTIONS = st.floats(0.001, 1)


@settings(max_examples=60)
@given(count=st.integers(1, 500), low=FRACTIONS, high=FRACTIONS, seed=st.integers(0, 2**32))
def test_a_smaller_fraction_lies_inside_a_larger_one(count: int, low: float, high: float, seed: int) -> None:
    few, many = (sample_items(count, label_fraction, seed).tolist() for label_fraction in sorted((low, high)))
    assert set(few) <= set(many) <= set(range(count))
    assert few == sorted(set(few)), "each once, in order"
    assert len(many) == pytest.approx(max(low, high) * count, abs=0.5) or len(many) == 1
    assert sample_items(count, 1.0, seed).tolist() == list(range(count))


def test_patients_have_all_their_recordings_or_none(store: Path) -> None:
    place = open_store(store)
    train = place.split().mask("train")
    owner = place.table(["patient_id"]).column(0).to_pylist()
    of_patient = defaultdict(set)
    for number in np.flatnonzero(train):
        of_patient[owner[number]].add(int(number))
    chosen = {
        label_fraction: set(np.flatnonzero(sample_patients(place, train, label_fraction, seed=3)).tolist())
        for label_fraction in (0.25, 0.5, 1.0)
    }
    assert chosen[0.25] < chosen[0.5] < chosen[1.0] == set(np.flatnonzero(train).tolist())
    for label_fraction, records in chosen.items():
        people = {owner[number] for number in records}
        assert records == set().union(*(of_patient[who] for who in people))
        assert len(people) == pytest.approx(label_fraction * len(of_patient), abs=0.5)


def test_recordings_outside_the_mask_stay_outside(store: Path) -> None:
    """Of each patient's two recordings, the first."""
    place = open_store(store)
    firsts = np.arange(len(place)) % 2 == 0
    chosen = sample_patients(place, firsts, 0.5, 0)
    assert chosen.sum() == len(place) / 4
    assert not (chosen & ~firsts).any()


def test_every_seed_draws_differently(store: Path) -> None:
    place = open_store(store)
    train = place.split().mask("train")
    draws = {sample_patients(place, train, 0.5, seed).tobytes() for seed in range(5)}
    items = {sample_items(100, 0.5, seed).tobytes() for seed in range(5)}
    assert len(draws) == len(items) == 5
    assert len({sample_items(100, 0.5, 7).tobytes() for _ in range(3)}) == 1


@pytest.mark.parametrize("label_fraction", [0.0, -0.5, 1.01, float("nan")])
def test_wrong_fractions_are_refused(label_fraction: float, store: Path) -> None:
    place = open_store(store)
    with pytest.raises(ConfigError, match="over 0 and at most 1"):
        sample_items(10, label_fraction, 0)
    with pytest.raises(ConfigError, match="over 0 and at most 1"):
        sample_patients(place, place.split().mask("train"), label_fraction, 0)
