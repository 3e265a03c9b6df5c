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
    hits: npt.NDArray[np.intp]
    """Positions of the positives, of shape (P,)."""
    first_hits: npt.NDArray[np.intp]
    """For each of the T different scores of positives, the index of its first positive in ``hits``, of shape (T,)."""
    spans: npt.NDArray[np.intp]
    """For each of these scores, the number of rows above it and the number of rows at or above it, of shape (2, T)."""


class Ranking:
    """Ranking metrics of scores that are sorted once and evaluated with many row weights, as a bootstrap needs.

    Weights have the shape (N,), or (N, B) for B sets of weights at once. Metrics have the shape (K,) or (K, B).

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).
    """

    def __init__(self, truth: Bools, scores: npt.NDArray[np.floating]) -> None:
        check_classes(truth, scores)
        self.rows, self.classes = truth.shape
        self._scores = scores
        self._orders = [_order(truth[:, index], scores[:, index]) for index in range(self.classes)]

    def auc(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return the area under the ROC curve of each class.

        Args:
            weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

        Returns:
            AUCs of shape (K,) or (K, B), NaN for a class without positives or negatives of positive weight.
        """
        return np.asarray(self.auc_and_average_precision(weights)[0])

    def average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return the average precision of each class without interpolation, with shape and NaN like the AUC."""
        return np.asarray(self.auc_and_average_precision(weights)[1])

    def auc_and_average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """Return AUC and average precision, of shape (2, K) or (2, K, B)."""
        weight = check_weights(self.rows, weights)
        columns = weight if weight.ndim == 2 else weight[:, None]
        cumulative = np.zeros((self.rows + 1, columns.shape[1]))
        found = np.full((2, self.classes, columns.shape[1]), np.nan)
        for index, order in enumerate(self._orders):
            if len(order.hits):
                found[:, index] = _area_and_precision(order, columns, cumulative)
        return found.reshape(2, self.classes, *weight.shape[1:])

    def counts(self, weights: npt.ArrayLike | None = None) -> Iterator[tuple[Floats, Floats]]:
        """Yield for each class the total weight of positives and of negatives at or above each different score.

        Args:
            weights: Weight of each row, of shape (N,); None for equal weights.

        Yields:
            Two arrays of shape (S,), where S is the number of different scores.
        """
        weight = check_weights(self.rows, weights)
        for order in self._orders:
            sorted_weight = weight[order.rows]
            positive = sorted_weight * order.positive
            # Negatives are summed separately, because a difference of large sums would lose precision.
            yield positive.cumsum()[order.ends], (sorted_weight - positive).cumsum()[order.ends]

    def thresholds(self) -> Iterator[Floats]:
        """Yield the different scores of each class in descending order, of shape (S,), like :meth:`counts`."""
        for column, order in enumerate(self._orders):
            yield self._scores[order.rows[order.ends], column]


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


def check_classes(truth: Bools, values: npt.NDArray[np.floating] | Bools) -> None:
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
    positive = truth[rows]
    hits = np.flatnonzero(positive)
    scores_of_hits, first_hits = np.unique(np.searchsorted(ends, hits), return_index=True)
    spans = np.stack([np.append(0, ends + 1)[scores_of_hits], ends[scores_of_hits] + 1])
    return _Order(rows, positive, ends, hits, first_hits, spans)


def _area_and_precision(order: _Order, weights: Floats, cumulative: Floats) -> tuple[Floats, Floats]:
    """Return AUC and average precision of a class with positives, of shape (B,) each, from weights (N, B).

    Only scores of positives contribute: to the AUC the weight of the negatives below them, where ties count half; to
    the average precision the precision at each of them, weighted by the increase of recall. ``cumulative`` is memory of
    shape (N + 1, B) for the weight of negatives above each position; its first row is zero.
    """
    positive = weights[order.rows[order.hits]]
    negative = cumulative[1:]
    np.take(weights, order.rows, axis=0, out=negative, mode="clip")  # other modes copy through a buffer
    negative[order.hits] = 0  # summed separately, because a difference of large sums would lose precision
    np.cumsum(negative, axis=0, out=negative)
    above, through = cumulative[order.spans[0]], cumulative[order.spans[1]]
    at_score = np.add.reduceat(positive, order.first_hits, axis=0)
    selected = at_score.cumsum(axis=0)
    num_positive, num_negative = selected[-1], cumulative[-1]
    precision = np.divide(selected, selected + through, out=np.zeros_like(selected), where=selected > 0)
    is_defined = (num_positive > 0) & (num_negative > 0)
    num_positive = np.where(is_defined, num_positive, np.nan)
    with np.errstate(invalid="ignore"):
        area = (at_score * (num_negative - (above + through) / 2)).sum(axis=0) / (num_positive * num_negative)
        return area, (at_score * precision).sum(axis=0) / num_positive


def check_weights(num_rows: int, weights: npt.ArrayLike | None) -> Floats:
    """Return weights of shape (N,) or (N, B); ones for None. Raise a ``ValueError`` for negative values and NaN."""
    weight = np.ones(num_rows) if weights is None else np.asarray(weights, np.float64)
    if weight.ndim not in (1, 2) or weight.shape[0] != num_rows or not weight.min(initial=0.0) >= 0:
        raise ValueError(f"Expected weights of shape ({num_rows},) or ({num_rows}, B) without negative values and NaN.")
    return weight


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
