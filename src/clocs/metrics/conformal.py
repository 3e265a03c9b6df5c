"""Conformal prediction sets of exclusive classes: the classes that a recording may have, at a fixed coverage."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import Bools, Floats, check_classes

SET_COVERAGE: Final = 0.95
"""Fraction of the patients of each class whose set contains their class."""


def set_thresholds(truth: Bools, probabilities: npt.NDArray[np.floating], coverage: float = SET_COVERAGE) -> Floats:
    """Return the minimum probability of each class in a prediction set, calibrated for each class by itself.

    This is split conformal prediction with one quantile a class (Vovk, Conditional validity of inductive conformal
    predictors, 2012). If a new row of a class is exchangeable with the rows given, its class is in its set with at
    least the probability ``coverage``, whatever the prevalence. A class with too few rows is in every set.

    Args:
        truth: Class of each row, of shape (N, K), independent of the fit of the probabilities.
        probabilities: Probabilities of shape (N, K).
        coverage: Fraction of the rows of each class whose set contains their class.

    Returns:
        Thresholds of shape (K,).

    Raises:
        ValueError: The coverage is not between 0 and 1, or shapes do not match.

    Example:
        >>> truth, probabilities = np.ones((39, 1), bool), np.arange(39)[:, None] / 39
        >>> set_thresholds(truth, probabilities) == probabilities[1]  # 2 of 40 are below or equal
        array([ True])
    """
    if not 0 < coverage < 1:
        raise ValueError(f"Expected a coverage between 0 and 1, got {coverage}.")
    check_classes(truth, probabilities)
    thresholds = np.zeros(truth.shape[1])
    for index, has_class in enumerate(truth.T):
        values = np.sort(probabilities[has_class, index])
        rank = int((len(values) + 1) * (1 - coverage) + 1e-9)
        if rank:
            thresholds[index] = values[rank - 1]
    return thresholds


def prediction_sets(probabilities: npt.NDArray[np.floating], thresholds: npt.ArrayLike) -> Bools:
    """Return the prediction set of each row, of shape (N, K).

    Args:
        probabilities: Probabilities of shape (N, K).
        thresholds: Thresholds of shape (K,), from :func:`set_thresholds`.
    """
    return np.asarray(probabilities >= np.asarray(thresholds))
