"""Calibration of probabilities: reliability, calibration errors and adjustment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import Bools, Floats, check_classes, check_weights

SLOPE_BOUNDS: Final = (0.1, 10.0)
"""Bounds of the slopes of an adjustment, which therefore never reverses an order."""
PRIOR: Final = 1.0
"""Weight of the prior of an adjustment, about that of one row."""
MIN_PROBABILITY: Final = 1e-6
"""Minimum distance of probabilities from 0 and 1."""


@dataclass(frozen=True)
class Reliability:
    """Predicted probabilities and observed frequencies of each class, in bins of equal width."""

    edges: Floats
    """Edges of the bins from 0 to 1, of shape (bins + 1,). A bin includes its upper edge."""
    count: npt.NDArray[np.int64]
    """Number of rows, of shape (K, bins)."""
    mean_probability: Floats
    """Mean probability, of shape (K, bins); NaN in empty bins."""
    observed: Floats
    """Observed frequency of the class, of shape (K, bins); NaN in empty bins."""

    def as_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with None for empty bins."""
        return {
            "edges": self.edges.tolist(),
            "count": self.count.tolist(),
            "mean_probability": _nan_to_none(self.mean_probability),
            "observed": _nan_to_none(self.observed),
        }


def reliability(truth: Bools, probabilities: npt.NDArray[np.floating], bins: int = 10) -> Reliability:
    """Compare the probabilities of each class with observed frequencies in bins.

    Args:
        truth: Labels of shape (N, K).
        probabilities: Probabilities of shape (N, K).
        bins: Number of bins of equal width.

    Returns:
        The reliability of each class.

    Raises:
        ValueError: Shapes do not match, or probabilities are not between 0 and 1.
    """
    _check_probabilities(truth, probabilities)
    num_classes, edges = truth.shape[1], _bin_edges(bins)
    cell = (np.searchsorted(edges[1:-1], probabilities) + bins * np.arange(num_classes)).ravel()

    def total(values: npt.NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(cell, values.ravel(), num_classes * bins), np.float64).reshape(num_classes, bins)

    count = np.bincount(cell, minlength=num_classes * bins).reshape(num_classes, bins)
    filled = np.where(count, count, np.nan)
    return Reliability(edges, count, total(probabilities) / filled, total(truth) / filled)


def expected_calibration_error(
    truth: Bools, probabilities: npt.NDArray[np.floating], bins: int = 10, *, weights: npt.ArrayLike | None = None
) -> Floats:
    """Return the expected calibration error of each class: the mean distance of probability and frequency in bins.

    Args:
        truth: Labels of shape (N, K).
        probabilities: Probabilities of shape (N, K).
        bins: Number of bins of equal width. A bin includes its upper edge.
        weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

    Returns:
        Errors of shape (K,) or (K, B); NaN without rows.
    """
    _check_probabilities(truth, probabilities)
    weight = check_weights(len(truth), weights)
    cells = np.searchsorted(_bin_edges(bins)[1:-1], probabilities)
    gaps = np.asarray(probabilities, np.float64) - truth
    total = sum(np.abs(np.where(cells == cell, gaps, 0.0).T @ weight) for cell in range(bins))
    return np.asarray(total / _total_weight(weight))


def brier_score(
    truth: Bools, probabilities: npt.NDArray[np.floating], *, weights: npt.ArrayLike | None = None
) -> Floats:
    """Return the Brier score of each class: the mean squared distance of probability and truth.

    Args:
        truth: Labels of shape (N, K).
        probabilities: Probabilities of shape (N, K).
        weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

    Returns:
        Scores of shape (K,) or (K, B); NaN without rows.
    """
    _check_probabilities(truth, probabilities)
    weight = check_weights(len(truth), weights)
    squares = np.square(np.asarray(probabilities, np.float64) - truth)
    return np.asarray(squares.T @ weight / _total_weight(weight))


def to_probabilities(logits: npt.NDArray[np.floating], multi_label: bool) -> Floats:
    """Convert logits to probabilities.

    Args:
        logits: Logits of shape (N, K).
        multi_label: Whether classes are independent labels (sigmoid) or mutually exclusive (softmax).

    Returns:
        Probabilities of shape (N, K).
    """
    values = np.asarray(logits, np.float64)
    if multi_label:
        small = np.exp(-np.abs(values))  # at most 1, so that nothing overflows
        return np.asarray(np.where(values < 0, small, 1.0) / (1 + small))
    shares = np.exp(values - values.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def adjust_probabilities(
    probabilities: npt.NDArray[np.floating],
    slope: npt.NDArray[np.floating],
    offset: npt.NDArray[np.floating],
    multi_label: bool,
) -> Floats:
    """Adjust probabilities by a linear function of their log odds.

    For exclusive classes, log probabilities are used instead of log odds.

    Args:
        probabilities: Probabilities of shape (N, K).
        slope: Slope of each class, of shape (K,).
        offset: Offset of each class, of shape (K,).
        multi_label: Whether classes are independent labels or mutually exclusive.

    Returns:
        Adjusted probabilities of shape (N, K).
    """
    return to_probabilities(_log_evidence(probabilities, multi_label) * slope + offset, multi_label)


def fit_adjustment(
    probabilities: npt.NDArray[np.floating],
    truth: Bools,
    multi_label: bool,
    *,
    free_slope: Bools | None = None,
    free_offset: Bools | None = None,
) -> tuple[Floats, Floats]:
    """Fit slope and offset of :func:`adjust_probabilities` by maximum likelihood with a prior at no adjustment.

    Args:
        probabilities: Probabilities of shape (N, K).
        truth: Labels of shape (N, K).
        multi_label: Whether classes are independent labels or mutually exclusive.
        free_slope: True for classes whose slope is fitted, of shape (K,); it is 1 for others. None: for all classes.
        free_offset: True for classes whose offset is fitted, of shape (K,); it is 0 for others. None: for all classes.

    Returns:
        Slope and offset of each class, both of shape (K,).
    """
    from scipy.optimize import minimize

    _check_probabilities(truth, probabilities)
    evidence, num_classes = _log_evidence(probabilities, multi_label), truth.shape[1]

    def negative_log_likelihood(parameters: Floats) -> tuple[float, Floats]:
        """Return the negative log likelihood with the prior, and its gradient."""
        slope, offset = parameters[:num_classes], parameters[num_classes:]
        predicted = to_probabilities(evidence * slope + offset, multi_label).clip(1e-12, 1 - 1e-12)
        log_likelihood = (
            np.where(truth, np.log(predicted), np.log1p(-predicted)) if multi_label else np.log(predicted[truth])
        )
        num_labels = 1 if multi_label else truth.sum(1, keepdims=True)  # groups of different rows have several
        error, deviation = predicted * num_labels - truth, np.concatenate([slope - 1, offset])
        gradient = np.concatenate([(error * evidence).sum(0), error.sum(0)]) + PRIOR * deviation
        return float(PRIOR * np.square(deviation).sum() / 2 - log_likelihood.sum()), gradient

    start = np.concatenate([np.ones(num_classes), np.zeros(num_classes)])
    slopes_free, offsets_free = (
        np.ones(num_classes, bool) if free is None else free for free in (free_slope, free_offset)
    )
    bounds: list[tuple[float | None, float | None]] = [SLOPE_BOUNDS if free else (1.0, 1.0) for free in slopes_free]
    bounds += [(None, None) if free else (0.0, 0.0) for free in offsets_free]
    best = minimize(negative_log_likelihood, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.asarray(best[:num_classes]), np.asarray(best[num_classes:])


def _log_evidence(probabilities: npt.NDArray[np.floating], multi_label: bool) -> Floats:
    inside = np.asarray(probabilities, np.float64).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(np.log(inside) - (np.log1p(-inside) if multi_label else 0.0))


def _check_probabilities(truth: Bools, probabilities: npt.NDArray[np.floating]) -> None:
    check_classes(truth, probabilities)
    if probabilities.size and not (probabilities.min() >= 0 and probabilities.max() <= 1):
        raise ValueError(
            "Expected probabilities from 0 to 1. Convert logits with clocs.metrics.calibration.to_probabilities."
        )


def _bin_edges(bins: int) -> Floats:
    if bins < 1:
        raise ValueError(f"Expected bins of at least 1, got {bins}.")
    return np.linspace(0.0, 1.0, bins + 1)


def _total_weight(weight: Floats) -> Floats:
    total = weight.sum(axis=0)
    return np.where(total > 0, total, np.nan)


def _nan_to_none(values: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]
