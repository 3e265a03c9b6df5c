"""Metrics of predicted numbers: mean absolute error and R2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import Bools, Floats, check_weights
from clocs.metrics.resampling import Patients

Numbers = npt.NDArray[np.floating]


def mean_absolute_error(values: Numbers, predictions: Numbers, weights: npt.ArrayLike | None = None) -> Floats:
    """Return the mean distance of predictions and values.

    Args:
        values: True values of shape (N,).
        predictions: Predicted values of shape (N,).
        weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

    Returns:
        The error as a scalar or of shape (B,); NaN without rows of positive weight.
    """
    check_numbers(values, predictions)
    weight = check_weights(len(values), weights)
    error = np.abs(np.asarray(predictions, np.float64) - values)
    return _quotient(error @ weight, weight.sum(axis=0))


def r2_score(values: Numbers, predictions: Numbers, weights: npt.ArrayLike | None = None) -> Floats:
    """Return the coefficient of determination: 1 minus the ratio of squared errors to squared deviations.

    Args:
        values: True values of shape (N,).
        predictions: Predicted values of shape (N,).
        weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

    Returns:
        R2 as a scalar or of shape (B,); NaN if all values are equal.
    """
    check_numbers(values, predictions)
    weight, known = check_weights(len(values), weights), np.asarray(values, np.float64)
    errors = np.square(known - predictions) @ weight
    from_first = known - known[:1]  # exactly zero if all values are equal
    mean = _quotient(from_first @ weight, weight.sum(axis=0))
    gaps = from_first.reshape(-1, *(1,) * (weight.ndim - 1)) - mean
    return np.asarray(1 - _quotient(errors, (weight * np.square(gaps)).sum(axis=0)))


@dataclass(frozen=True)
class RegressionMetrics:
    """Mean absolute error (``mae``) and R2 (``r2``) for :func:`clocs.metrics.bootstrap.bootstrap`."""

    values: Numbers
    """True values of shape (N,)."""
    predictions: Numbers
    """Predicted values of shape (N,)."""
    patients: Patients
    """Patient of each row, of shape (N,)."""
    symmetric: ClassVar[frozenset[str]] = frozenset({"mae", "r2"})
    """Metrics that are not bounded by 0 and 1."""

    @property
    def truth(self) -> Bools:
        """Return no classes, as an array of shape (N, 0)."""
        return np.zeros((len(self.values), 0), np.bool_)

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Return both metrics, of shape (B,), from weights of shape (N, B)."""
        return {
            "mae": mean_absolute_error(self.values, self.predictions, weights),
            "r2": r2_score(self.values, self.predictions, weights),
        }


def check_numbers(values: Numbers, predictions: Numbers) -> None:
    """Raise a ``ValueError`` unless both arrays have shape (N,) and are finite."""
    if values.ndim != 1 or values.shape != predictions.shape:
        raise ValueError(f"Expected values and predictions of shape (N,), got {values.shape} and {predictions.shape}.")
    if not (np.isfinite(values).all() and np.isfinite(predictions).all()):
        raise ValueError("Expected finite values and predictions. Remove rows with NaN.")


def _quotient(numerator: Floats, denominator: Floats) -> Floats:
    found = np.full(np.shape(numerator), np.nan)
    return np.asarray(np.divide(numerator, denominator, out=found, where=denominator > 0))
