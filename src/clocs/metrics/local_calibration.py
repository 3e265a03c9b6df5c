"""Calibration of class probabilities to a few labels of one hospital, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.seeds import generator
from clocs.metrics.calibration import adjust_probabilities, fit_adjustment
from clocs.metrics.pooling import pool_truth
from clocs.metrics.ranking import Bools, Floats, check_classes

Method = Literal["published", "intercept", "platt", "isotonic"]
"""``published``: unchanged. ``intercept``: the log odds are shifted. ``platt``: they are shifted and scaled.
``isotonic``: the result of that is mapped by a monotonic curve."""
MIN_PATIENTS: Final[dict[Method, int]] = {"isotonic": 500, "platt": 20, "intercept": 5, "published": 0}
"""Minimum number of patients with a class, and of patients without it, for each method, the best one first."""
NUM_FOLDS: Final = 10
"""Number of folds of patients in cross-validation."""


@dataclass(frozen=True)
class ClassAdjustment:
    """Adjustment of the probabilities of one class."""

    method: Method
    """Method of the adjustment."""
    slope: float = 1.0
    """Factor of the log odds; of the log probability if classes are exclusive."""
    offset: float = 0.0
    """Shift of the log odds; of the log probability if classes are exclusive."""
    curve: tuple[tuple[float, float], ...] = ()
    """Probabilities before and after the isotonic curve, ascending; linear between them. Empty: no curve."""


def choose_methods(truth: Bools, patients: npt.NDArray[np.int64]) -> tuple[Method, ...]:
    """Return the method of each class that the number of patients with and without it allows.

    Args:
        truth: Labels of shape (N, K).
        patients: Patient of each row, of shape (N,).

    Example:
        >>> truth = np.arange(100)[:, None] < [4, 5, 20, 81, 96]
        >>> choose_methods(truth, np.arange(100))
        ('published', 'intercept', 'platt', 'intercept', 'published')
    """
    with_class = pool_truth(truth, patients)[1].sum(axis=0)
    without = pool_truth(~truth, patients)[1].sum(axis=0)
    counts = np.minimum(with_class, without).tolist()
    return tuple(next(method for method, needed in MIN_PATIENTS.items() if count >= needed) for count in counts)


def fit_class_adjustments(
    truth: Bools, probabilities: npt.NDArray[np.floating], methods: Sequence[Method], multi_label: bool
) -> tuple[ClassAdjustment, ...]:
    """Fit the adjustment of each class by maximum likelihood, with a prior at no adjustment.

    Args:
        truth: Labels of shape (N, K).
        probabilities: Published probabilities of shape (N, K).
        methods: Method of each class.
        multi_label: Whether classes are independent labels or mutually exclusive.
    """
    chosen = np.array(methods)
    shifted, scaled = chosen != "published", np.isin(chosen, ("platt", "isotonic"))
    slope, offset = fit_adjustment(probabilities, truth, multi_label, free_slope=scaled, free_offset=shifted)
    adjusted = adjust_probabilities(probabilities, slope, offset, multi_label)
    return tuple(
        ClassAdjustment(
            method,
            float(slope[index]),
            float(offset[index]),
            _isotonic_curve(truth[:, index], adjusted[:, index]) if method == "isotonic" else (),
        )
        for index, method in enumerate(methods)
    )


def adjust_classes(
    probabilities: npt.NDArray[np.floating], adjustments: Sequence[ClassAdjustment], multi_label: bool
) -> Floats:
    """Apply the adjustment of each class to published probabilities, both of shape (N, K)."""
    slope, offset = (np.array([getattr(item, name) for item in adjustments]) for name in ("slope", "offset"))
    adjusted = adjust_probabilities(probabilities, slope, offset, multi_label)
    for index, item in enumerate(adjustments):
        if item.curve:
            adjusted[:, index] = np.interp(adjusted[:, index], *np.array(item.curve).T)
    has_curve = any(item.curve for item in adjustments)
    return adjusted / adjusted.sum(axis=1, keepdims=True) if has_curve and not multi_label else adjusted


def cross_validate_adjustments(
    truth: Bools,
    probabilities: npt.NDArray[np.floating],
    patients: npt.NDArray[np.int64],
    methods: Sequence[Method],
    multi_label: bool,
) -> Floats:
    """Return probabilities of shape (N, K) of rows that are adjusted without the labels of their patients.

    Args:
        truth: Labels of shape (N, K).
        probabilities: Published probabilities of shape (N, K).
        patients: Patient of each row, of shape (N,).
        methods: Method of each class.
        multi_label: Whether classes are independent labels or mutually exclusive.

    Raises:
        ValueError: There are fewer patients than folds, or shapes do not match.
    """
    check_classes(truth, probabilities)
    unique, codes = np.unique(patients, return_inverse=True)
    if len(unique) < NUM_FOLDS:
        raise ValueError(f"Expected at least {NUM_FOLDS} patients for cross-validation, got {len(unique)}.")
    fold = (generator(0, "local-calibration").permutation(len(unique)) % NUM_FOLDS)[codes]
    found = np.empty(truth.shape)
    for number in range(NUM_FOLDS):
        here = fold == number
        fitted = fit_class_adjustments(truth[~here], probabilities[~here], methods, multi_label)
        found[here] = adjust_classes(probabilities[here], fitted, multi_label)
    return found


def _isotonic_curve(truth: Bools, probabilities: Floats) -> tuple[tuple[float, float], ...]:
    """Return the ends of the steps of an isotonic regression, which keeps from 0 and 1 as a rule of succession does."""
    from scipy.optimize import isotonic_regression

    values, inverse, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    fitted = isotonic_regression(np.bincount(inverse, truth) / counts, weights=counts).x
    changes = np.diff(fitted) > 0
    ends = np.r_[True, changes] | np.r_[changes, True]
    margin = 1 / (len(truth) + 2)
    return tuple(zip(values[ends].tolist(), np.clip(fitted[ends], margin, 1 - margin).tolist(), strict=True))
