"""How well scores rank: area under the ROC curve, average precision, and what single thresholds achieve; ties exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Order:
    """The rows of one class from the highest score to the lowest."""

    rows: npt.NDArray[np.intp]
    """(N,)"""
    positive: Bools
    """(N,) truth of those rows."""
    ends: npt.NDArray[np.intp]
    """(S,) the last place of each of the S different scores: rows that tie are counted together."""


class Ranking:
    """Scores sorted once and measured under any number of row weights: what a bootstrap needs."""

    def __init__(self, truth: Bools, scores: npt.NDArray[np.floating]) -> None:
        """``truth`` and ``scores`` are (N, K), rows x classes."""
        check_classes(truth, scores)
        self.rows, self.classes = truth.shape
        self._orders = [_order(truth[:, place], scores[:, place]) for place in range(self.classes)]

    def auc(self, weights: npt.ArrayLike | None = None) -> Floats:
        """(K,) area under the ROC curve; NaN where the positives or the negatives of a class weigh nothing."""
        return np.array([_area(true, false) for true, false in self.counts(weights)])

    def average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """(K,) mean precision over the recall gained, without interpolation; NaN where the AUC is."""
        return np.array([_average_precision(true, false) for true, false in self.counts(weights)])

    def auc_and_average_precision(self, weights: npt.ArrayLike | None = None) -> Floats:
        """(2, K) both for the price of one."""
        pairs = [(_area(true, false), _average_precision(true, false)) for true, false in self.counts(weights)]
        return np.array(pairs).reshape(self.classes, 2).T

    def counts(self, weights: npt.ArrayLike | None = None) -> Iterator[tuple[Floats, Floats]]:
        """For each class the weight of positives, and of negatives, at or above each different score: (S,) both."""
        weight = np.ones(self.rows) if weights is None else np.asarray(weights, np.float64)
        if weight.shape != (self.rows,) or not weight.min(initial=0.0) >= 0:
            raise ValueError(f"weights must be ({self.rows},), one a row, and none negative or NaN")
        for order in self._orders:
            sorted_weight = weight[order.rows]
            positive = sorted_weight * order.positive
            # Negatives are summed by themselves: as a difference they would drown in heavy positives.
            yield positive.cumsum()[order.ends], (sorted_weight - positive).cumsum()[order.ends]


def auc(truth: Bools, scores: npt.NDArray[np.floating], weights: npt.ArrayLike | None = None) -> Floats:
    """(K,) area under the ROC curve of each class: how often a positive outranks a negative, ties counted half.

    ``truth`` and ``scores`` are (N, K), ``weights`` (N,). NaN where a class lacks positives or negatives.
    """
    return Ranking(truth, scores).auc(weights)


def average_precision(truth: Bools, scores: npt.NDArray[np.floating], weights: npt.ArrayLike | None = None) -> Floats:
    """(K,) average precision of each class, as scikit-learn defines it.

    NaN where a class lacks positives or negatives: then the same classes are defined as for the AUC.
    """
    return Ranking(truth, scores).average_precision(weights)


def macro_average(values: npt.ArrayLike) -> float:
    """Mean over the classes that are defined; NaN if none is."""
    given = np.asarray(values, np.float64)
    defined = given[~np.isnan(given)]
    return float(defined.mean()) if defined.size else float("nan")


def roc_curves(truth: Bools, scores: npt.NDArray[np.floating]) -> list[Floats]:
    """For each class (2, points): false and true positive rates, from (0, 0) to (1, 1); (2, 0) where undefined.

    Points inside a straight stretch are left out. The trapezoids below the others are the AUC.
    """
    curves = []
    for true, false in Ranking(truth, scores).counts(None):
        counts = np.concatenate([np.zeros((2, 1)), [false, true]], axis=1)
        defined = counts.shape[1] > 1 and counts[:, -1].all()
        curves.append(_corners(counts) / counts[:, -1:] if defined else np.empty((2, 0)))
    return curves


def check_classes(truth: Bools, values: npt.NDArray[np.floating]) -> None:
    """Refuse arrays that are not rows x classes: truth of another shape or type would be counted wrongly."""
    if truth.dtype != np.bool_:
        raise ValueError(f"truth must be bool, not {truth.dtype}")
    if truth.ndim != 2 or truth.shape != values.shape:
        raise ValueError(f"truth and values must both be (N, K), rows x classes, not {truth.shape}, {values.shape}")
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).any(axis=1).sum())} of {len(values)} rows hold NaN")


def _order(truth: Bools, scores: npt.NDArray[np.floating]) -> _Order:
    # Turned round twice, so that rows that tie keep their order; negated, unsigned scores would wrap.
    rows = len(scores) - 1 - np.argsort(scores[::-1], kind="stable")[::-1]
    descending = scores[rows]
    falls = np.append(descending[1:] != descending[:-1], True)
    ends = np.flatnonzero(falls[: len(rows)])
    return _Order(rows, truth[rows], ends)


def _area(true: Floats, false: Floats) -> float:
    """Trapezoids below the ROC curve: a tie is a slope, which counts its pairs half."""
    if not len(true) or not true[-1] or not false[-1]:
        return float("nan")
    doubled = false[0] * true[0] + (np.diff(false) * (true[1:] + true[:-1])).sum()
    return float(doubled / (2 * true[-1] * false[-1]))


def _average_precision(true: Floats, false: Floats) -> float:
    """Precision at each different score, weighted by the recall gained there."""
    if not len(true) or not true[-1] or not false[-1]:
        return float("nan")
    called = true + false
    precision = np.divide(true, called, out=np.zeros_like(true), where=called > 0)
    return float((true[0] * precision[0] + (np.diff(true) * precision[1:]).sum()) / true[-1])


def _corners(counts: Floats) -> Floats:
    """The points (2, M) at which the direction of a path of whole numbers changes, and its ends."""
    across, up = np.diff(counts, axis=1)
    turns = across[1:] * up[:-1] != across[:-1] * up[1:]
    return counts[:, np.concatenate([[True], turns, [True]])]


class OperatingPoints:
    """The thresholds of one score, sorted once and measured under any number of row weights."""

    def __init__(self, positive: Bools, scores: npt.NDArray[np.floating]) -> None:
        """``positive`` and ``scores`` are (N,); a row is called positive at or above a threshold."""
        self._ranking = Ranking(positive[:, None], scores[:, None])

    def auc(self, weights: npt.ArrayLike | None = None) -> float:
        """Area under the ROC curve; NaN without positives or negatives."""
        return float(self._ranking.auc(weights)[0])

    def equal_error_rate(self, weights: npt.ArrayLike | None = None) -> float:
        """The rate at which as many negatives are called positive as positives are missed.

        Between two thresholds the ROC curve is a straight line. NaN without positives or negatives.
        """
        false, true = self._rates(weights)
        gap = false - (1 - true)  # grows from -1 to 1 along the curve
        if np.isnan(gap).any():
            return float("nan")
        after = int(np.searchsorted(gap, 0.0))
        before = max(after - 1, 0)
        rise = gap[after] - gap[before]
        part = -gap[before] / rise if rise > 0 else 0.0
        return float(false[before] + part * (false[after] - false[before]))

    def true_positive_rate_at(self, most_false: float, weights: npt.ArrayLike | None = None) -> float:
        """The most positives that a threshold finds which calls at most a share ``most_false`` of the negatives so."""
        false, true = self._rates(weights)
        if np.isnan(false + true).any():
            return float("nan")
        return float(true[false <= most_false + 1e-12].max())

    def _rates(self, weights: npt.ArrayLike | None) -> tuple[Floats, Floats]:
        """False and true positive rates from the strictest threshold, which nothing reaches, to the lowest."""
        true, false = next(self._ranking.counts(weights))
        if not len(true):
            return np.full(1, np.nan), np.full(1, np.nan)
        with np.errstate(invalid="ignore"):
            return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])
