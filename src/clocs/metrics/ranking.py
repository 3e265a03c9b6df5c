"""Ranking metrics: area under the ROC curve, average precision and operating points, with exact handling of ties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Order:
    """Rows of one class in descending order of their scores."""

    rows: npt.NDArray[np.intp]
    """Indices of the rows, of shape (N,)."""
    positive: Bools
    """Labels of these rows, of shape (N,)."""
    ends: npt.NDArray[np.intp]
    """Last position of each of the S different scores, of shape (S,). Rows that tie are counted together."""


class Ranking:
    """Ranking metrics of scores that are sorted once and evaluated with many row weights, as a bootstrap needs.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).
    """

    def __init__(self, truth: Bools, scores: npt.NDArray[np.floating]) -> None:
        check_classes(truth, scores)
        self.rows, self.classes = truth.shape
        self._orders = [_order(truth[:, index], scores[:, index]) for index in range(self.classes)]

    def auc(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return the area under the ROC curve of each class, of shape (K,).

        Args:
            weights: Weight of each row, of shape (N,); None for equal weights.

        Returns:
            AUCs, NaN for a class without positives or negatives of positive weight.
        """
        return np.array([_area(true, false) for true, false in self.counts(weights)])

    def average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return the average precision of each class without interpolation, of shape (K,); NaN like the AUC."""
        return np.array([_average_precision(true, false) for true, false in self.counts(weights)])

    def auc_and_average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return AUC and average precision, of shape (2, K). It is faster than two separate calls."""
        pairs = [(_area(true, false), _average_precision(true, false)) for true, false in self.counts(weights)]
        return np.array(pairs).reshape(self.classes, 2).T

    def counts(self, weights: npt.ArrayLike | None = None) -> Iterator[tuple[Floats, Floats]]:
        """Yield for each class the total weight of positives and of negatives at or above each different score.

        Args:
            weights: Weight of each row, of shape (N,); None for equal weights.

        Yields:
            Two arrays of shape (S,), where S is the number of different scores.
        """
        weight = np.ones(self.rows) if weights is None else np.asarray(weights, np.float64)
        if weight.shape != (self.rows,) or not weight.min(initial=0.0) >= 0:
            raise ValueError(f"Expected weights of shape ({self.rows},) without negative values and NaN.")
        for order in self._orders:
            sorted_weight = weight[order.rows]
            positive = sorted_weight * order.positive
            # Negatives are summed separately, because a difference of large sums would lose precision.
            yield positive.cumsum()[order.ends], (sorted_weight - positive).cumsum()[order.ends]


def auc(truth: Bools, scores: npt.NDArray[np.floating], weights: npt.ArrayLike | None = None) -> Floats:
    """Return the area under the ROC curve of each class. Ties count half.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).
        weights: Weight of each row, of shape (N,); None for equal weights.

    Returns:
        AUCs of shape (K,), NaN for a class without positives or negatives.
    """
    return Ranking(truth, scores).auc(weights)


def average_precision(truth: Bools, scores: npt.NDArray[np.floating], weights: npt.ArrayLike | None = None) -> Floats:
    """Return the average precision of each class, as defined by scikit-learn.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).
        weights: Weight of each row, of shape (N,); None for equal weights.

    Returns:
        Average precisions of shape (K,), NaN for a class without positives or negatives.
    """
    return Ranking(truth, scores).average_precision(weights)


def macro_average(values: npt.ArrayLike) -> float:
    """Return the mean over the defined classes, or NaN without a defined class."""
    array = np.asarray(values, np.float64)
    defined = array[~np.isnan(array)]
    return float(defined.mean()) if defined.size else float("nan")


def roc_curves(truth: Bools, scores: npt.NDArray[np.floating]) -> list[Floats]:
    """Return the ROC curve of each class, without points on straight lines.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).

    Returns:
        False and true positive rates from (0, 0) to (1, 1) of each class, of shape (2, points). An undefined class has
        no points.
    """
    curves = []
    for true, false in Ranking(truth, scores).counts(None):
        counts = np.concatenate([np.zeros((2, 1)), [false, true]], axis=1)
        is_defined = counts.shape[1] > 1 and counts[:, -1].all()
        curves.append(_corners(counts) / counts[:, -1:] if is_defined else np.empty((2, 0)))
    return curves


def check_classes(truth: Bools, values: npt.NDArray[np.floating]) -> None:
    """Raise a ``ValueError`` unless truth is boolean and both arrays have shape (N, K) without NaN."""
    if truth.dtype != np.bool_:
        raise ValueError(f"Expected truth of type bool, got {truth.dtype}.")
    if truth.ndim != 2 or truth.shape != values.shape:
        raise ValueError(f"Expected truth and values of shape (N, K), got {truth.shape} and {values.shape}.")
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).any(axis=1).sum())} of {len(values)} rows contain NaN. Remove them.")


def _order(truth: Bools, scores: npt.NDArray[np.floating]) -> _Order:
    # Reversed twice, so that ties keep their order. Negation would overflow for unsigned scores.
    rows = len(scores) - 1 - np.argsort(scores[::-1], kind="stable")[::-1]
    descending = scores[rows]
    falls = np.append(descending[1:] != descending[:-1], True)
    ends = np.flatnonzero(falls[: len(rows)])
    return _Order(rows, truth[rows], ends)


def _area(true: Floats, false: Floats) -> float:
    """Return the area of the trapezoids below the ROC curve, which counts ties half."""
    if not len(true) or not true[-1] or not false[-1]:
        return float("nan")
    doubled = false[0] * true[0] + (np.diff(false) * (true[1:] + true[:-1])).sum()
    return float(doubled / (2 * true[-1] * false[-1]))


def _average_precision(true: Floats, false: Floats) -> float:
    """Return the precision at each different score, weighted by the increase of recall."""
    if not len(true) or not true[-1] or not false[-1]:
        return float("nan")
    num_selected = true + false
    precision = np.divide(true, num_selected, out=np.zeros_like(true), where=num_selected > 0)
    return float((true[0] * precision[0] + (np.diff(true) * precision[1:]).sum()) / true[-1])


def _corners(counts: Floats) -> Floats:
    """Return the ends of a path and the points at which its direction changes, of shape (2, M)."""
    across, up = np.diff(counts, axis=1)
    turns = across[1:] * up[:-1] != across[:-1] * up[1:]
    return counts[:, np.concatenate([[True], turns, [True]])]


class OperatingPoints:
    """Metrics at thresholds of one score, which is sorted once and evaluated with many row weights.

    Args:
        positive: Labels of shape (N,).
        scores: Scores of shape (N,). A row at or above a threshold is predicted as positive.
    """

    def __init__(self, positive: Bools, scores: npt.NDArray[np.floating]) -> None:
        self._ranking = Ranking(positive[:, None], scores[:, None])

    def auc(self, weights: npt.ArrayLike | None = None) -> float:
        """Return the area under the ROC curve; NaN without positives or negatives."""
        return float(self._ranking.auc(weights)[0])

    def equal_error_rate(self, weights: npt.ArrayLike | None = None) -> float:
        """Return the rate at which false positive rate and false negative rate are equal.

        The ROC curve is linear between two thresholds.

        Args:
            weights: Weight of each row, of shape (N,); None for equal weights.

        Returns:
            The equal error rate; NaN without positives or negatives.
        """
        false, true = self._rates(weights)
        gap = false - (1 - true)  # increases from -1 to 1 along the curve
        if np.isnan(gap).any():
            return float("nan")
        after = int(np.searchsorted(gap, 0.0))
        before = max(after - 1, 0)
        rise = gap[after] - gap[before]
        fraction = -gap[before] / rise if rise > 0 else 0.0
        return float(false[before] + fraction * (false[after] - false[before]))

    def true_positive_rate_at(self, max_false_positive_rate: float, weights: npt.ArrayLike | None = None) -> float:
        """Return the highest true positive rate of thresholds with a limited false positive rate.

        Args:
            max_false_positive_rate: Maximum false positive rate.
            weights: Weight of each row, of shape (N,); None for equal weights.

        Returns:
            The true positive rate; NaN without positives or negatives.
        """
        false, true = self._rates(weights)
        if np.isnan(false + true).any():
            return float("nan")
        return float(true[false <= max_false_positive_rate + 1e-12].max())

    def _rates(self, weights: npt.ArrayLike | None) -> tuple[Floats, Floats]:
        """Return false and true positive rates, from a threshold above all scores to the lowest threshold."""
        true, false = next(self._ranking.counts(weights))
        if not len(true):
            return np.full(1, np.nan), np.full(1, np.nan)
        with np.errstate(invalid="ignore"):
            return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])
