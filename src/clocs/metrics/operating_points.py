"""What one threshold on a score achieves: equal error rate, and true positives at few false ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import Bools, Floats, Ranking


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
