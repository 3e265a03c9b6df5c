"""Tests of conformal prediction sets."""

from __future__ import annotations

import numpy as np
import pytest

from clocs.metrics.conformal import prediction_sets, set_thresholds


def literal_sets(truth: np.ndarray, scores: np.ndarray, new: np.ndarray, coverage: float) -> np.ndarray:
    """A class is in the set if its conformal p-value exceeds 1 - coverage (Vovk 2012), in whole numbers."""
    sets = np.zeros(new.shape, bool)
    for row, values in enumerate(new):
        for column, value in enumerate(values):
            known = scores[truth[:, column], column]
            sets[row, column] = 100 * (np.sum(known < value) + 1) > round(100 * (1 - coverage)) * (len(known) + 1)
    return sets


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("rows", [12, 20, 57, 300])
def test_sets_are_those_of_p_values(rows: int, coverage: float) -> None:
    random = np.random.default_rng(rows)
    truth = np.eye(3, dtype=bool)[random.integers(0, 3, rows)]
    scores, new = random.random((rows, 3)), random.random((200, 3))
    found = prediction_sets(new, set_thresholds(truth, scores, coverage))
    np.testing.assert_array_equal(found, literal_sets(truth, scores, new, coverage))


def test_each_class_is_covered_even_a_rare_one() -> None:
    """Mean coverage over 400 draws; a threshold for all classes together would fail the rare one."""
    random = np.random.default_rng(0)
    covered = []
    for _ in range(400):
        labels = np.r_[np.zeros(300, int), np.ones(39, int)]
        scores = np.clip(random.normal(np.where(labels, 0.4, 0.8), 0.1), 0, 1)
        both = np.stack([scores, scores], axis=1)
        thresholds = set_thresholds(np.eye(2, dtype=bool)[labels], both)
        fresh = random.normal([0.8, 0.4], 0.1, (50, 2))
        covered.append(prediction_sets(fresh, thresholds).mean(axis=0))
    assert np.mean(covered, axis=0) == pytest.approx([0.95, 0.95], abs=0.01)


def test_a_class_with_few_rows_is_in_every_set() -> None:
    truth = np.ones((18, 1), bool)
    scores = np.linspace(0.5, 1, 18)[:, None]
    assert set_thresholds(truth, scores).tolist() == [0]
    assert set_thresholds(np.ones((19, 1), bool), np.linspace(0.5, 1, 19)[:, None]).tolist() == [0.5]


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="coverage between 0 and 1"):
        set_thresholds(np.ones((3, 1), bool), np.ones((3, 1)), 1.0)
    with pytest.raises(ValueError, match="shape"):
        set_thresholds(np.ones((3, 1), bool), np.ones((3, 2)))
