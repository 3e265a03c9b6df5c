"""Distances: a literal version, scipy's, and separations that are known."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import roc_auc_score

from clocs.core.errors import ConfigError
from clocs.similarity.judgement.distances import CHUNK, pair_distances, patient_distances


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
    whole = patient_distances(values, patient, most=10**7, replicates=2)
    some = patient_distances(values, patient, most=800, replicates=2)
    assert (len(whole.intra), len(whole.inter)) == (100 * 10, 500 * 499 // 2 - 100 * 10)
    assert (len(some.intra), len(some.inter)) == (800, 800)
    for name in ("intra", "inter"):
        known, drawn = getattr(whole, name), getattr(some, name)
        assert drawn.mean() == pytest.approx(known.mean(), abs=4 * known.std() / math.sqrt(800))
    assert some.separation.value == pytest.approx(whole.separation.value, abs=0.05)
    again = patient_distances(values, patient, most=800, replicates=2)
    assert np.array_equal(some.inter, again.inter)


def test_the_separation_of_a_line_is_known() -> None:
    """One dimension, patients far apart with variance V: an inter-patient difference has variance 2 + 2 V, an
    intra-patient one 2, so the longer one is told by the angle whose tangent is the ratio of deviations.
    """
    random = np.random.default_rng(2)
    for spread in (0.0, 1.0, 3.0):
        patient = np.repeat(np.arange(3000), 2)
        values = (random.normal(size=6000) + spread * random.normal(size=3000)[patient])[:, None]
        found = patient_distances(values, patient, most=20_000, replicates=30)
        expected = 2 / math.pi * math.atan(math.sqrt(1 + spread**2))
        assert found.separation.low - 0.01 < expected < found.separation.high + 0.01


def test_chunks_make_no_difference_and_bound_the_memory() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(500, 64)).astype(np.float32)
    first, second = random.integers(0, 500, (2, 4 * CHUNK + 5))
    tracemalloc.start()
    found = pair_distances(values, first, second)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * CHUNK * 64 * 4, "all pairs at once would take more"
    np.testing.assert_allclose(found, np.sqrt(((values[first] - values[second]) ** 2).sum(1)), rtol=1e-5)


@pytest.mark.parametrize("patient", [[0, 1, 2], [4, 4, 4]])
def test_both_kinds_of_pairs_are_needed(patient: list[int]) -> None:
    with pytest.raises(ConfigError, match="two embeddings, and two patients"):
        patient_distances(np.eye(3), np.array(patient))
