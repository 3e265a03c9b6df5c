"""Patient groups: planted groups are found and described, and noise has no group."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clocs.core.errors import ConfigError
from clocs.similarity.patient_groups import NO_GROUP, describe_groups, find_groups, group_patients, group_stability
from clocs.similarity.patient_map import PatientMetadata
from clocs.similarity.scoring.cohort import open_cohort
from clocs.store.store import Store


def test_planted_groups_are_found_the_largest_first() -> None:
    random = np.random.default_rng(0)
    planted = np.repeat(np.arange(3), (40, 120, 70))
    values = 4 * random.normal(size=(3, 20))[planted] + 0.5 * random.normal(size=(230, 20))
    found = find_groups(values)
    assert adjusted_rand_score(planted, found) > 0.95
    sizes = np.bincount(found[found >= 0])
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)
    assert np.bincount(planted[found == 0]).argmax() == 1


def test_patients_far_from_all_others_are_in_no_group() -> None:
    random = np.random.default_rng(1)
    values = np.concatenate([np.zeros((50, 3)), np.full((50, 3), 9.0)]) + 0.1 * random.normal(size=(100, 3))
    far = 100 * random.normal(size=(5, 3))
    found = find_groups(np.concatenate([values, far]))
    assert (found[-5:] == NO_GROUP).all()
    assert set(found.tolist()) == {NO_GROUP, 0, 1}


def test_the_minimum_group_size_is_respected() -> None:
    random = np.random.default_rng(2)
    planted = np.repeat(np.arange(3), (60, 60, 8))
    values = 9 * np.eye(3)[planted] + 0.3 * random.normal(size=(128, 3))
    assert find_groups(values, min_group_size=5).max() == 2
    assert find_groups(values, min_group_size=20).max() == 1
    for min_group_size in (1, 129):
        with pytest.raises(ConfigError, match=f"got {min_group_size}"):
            find_groups(values, min_group_size=min_group_size)


def test_groups_are_described_by_counts() -> None:
    groups = np.array([0, 0, 0, 0, 1, 1, NO_GROUP, NO_GROUP])
    labels = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]], bool)
    age = np.array([60, 70, 80, np.nan, np.nan, np.nan, 40, 50.0])
    sex = np.array(["female", "male", "male", "unknown", "unknown", "unknown", "female", "female"])
    names = np.array(["r"] * 8)
    largest, second, none = describe_groups(
        groups, labels, ("AF", "SR", "PVC"), PatientMetadata(names, names, age, sex, names)
    )
    assert [group.number for group in (largest, second, none)] == [0, 1, NO_GROUP]
    assert largest.patients == 4
    assert largest.shares == {"AF": 0.75, "SR": 0.25, "PVC": 0.0}
    assert largest.enrichment == {"AF": pytest.approx(0.75 / 0.5), "SR": pytest.approx(0.25 / 0.375), "PVC": None}
    assert largest.median_age == 70
    assert largest.female == pytest.approx(1 / 3)
    assert list(second.enrichment) == ["SR", "AF", "PVC"], "the most enriched first"
    assert (second.median_age, second.female) == (None, None)
    assert second.legend() == "group 1, 2: SR 100% (x2.7)"
    assert largest.describe_labels() == "AF 75% (x1.5)", "only what is more frequent than in all"
    assert none.title == "no group"
    json.dumps([group.as_dict() for group in (largest, second, none)], allow_nan=False)


def test_real_groups_are_stable_and_random_ones_are_not() -> None:
    random = np.random.default_rng(3)
    planted = np.repeat(np.arange(2), 80)
    apart = 9 * np.eye(2)[planted] + 0.3 * random.normal(size=(160, 2))
    again = group_stability(apart, find_groups(apart))
    assert again is not None
    assert again > 0.95
    cloud = random.normal(size=(160, 2))
    groups = find_groups(cloud, min_group_size=5, cluster_selection="leaf")
    first, second = (group_stability(cloud, groups, min_group_size=5, cluster_selection="leaf") for _ in range(2))
    assert first is not None
    assert first == second
    assert first < 0.5
    assert group_stability(cloud, np.full(160, NO_GROUP)) is None


def test_leaf_groups_are_nested_in_eom_groups() -> None:
    """Two pairs of groups: the pairs are found, or with ``leaf`` all four."""
    random = np.random.default_rng(4)
    centres = np.array([[0, 0], [2, 0], [40, 0], [42, 0]])
    values = np.repeat(centres, 60, axis=0) + 0.25 * random.normal(size=(240, 2))
    coarse, fine = (find_groups(values, cluster_selection=selection) for selection in ("eom", "leaf"))
    assert coarse.max() + 1 in (2, 4)
    assert fine.max() + 1 == 4
    for number in range(4):
        assert len(np.unique(coarse[fine == number])) == 1


def test_groups_of_a_cohort_cover_all_patients(judged_store: Store) -> None:
    cohort = open_cohort("random", judged_store, part="all")
    found = group_patients(cohort, min_group_size=5)
    assert found.as_dict()["stability"] == found.stability
    assert sum(group.patients for group in found.groups) == len(found.assignment) == 200
    assert found.patient_map.points.shape == (200, 2)
