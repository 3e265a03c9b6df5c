"""Whether a probability means what it says: reliability, its errors, and what mends confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.metrics.pooling import Groups, pool, pool_truth
from clocs.metrics.ranking import Bools, Floats, check_classes

TEMPERATURES: Final = (0.01, 100.0)
"""What a fitted temperature is held between: logits that separate the classes would otherwise ask for 0."""

SLOPES: Final = (0.1, 10.0)
"""Of an adjustment: it never turns an order round."""
PRIOR: Final = 1.0
"""Weight of an adjustment's prior, about that of one row."""
SURE: Final = 1e-6
"""Probabilities nearer to 0 or 1 count as this near."""


@dataclass(frozen=True)
class Reliability:
    """What was predicted and what came true, class by class, in bins of equal width."""

    edges: Floats
    """(bins + 1,) from 0 to 1; a bin includes its upper edge."""
    count: npt.NDArray[np.int64]
    """(K, bins) rows."""
    mean_probability: Floats
    """(K, bins), NaN where a bin is empty."""
    observed: Floats
    """(K, bins) frequency of the class, NaN where a bin is empty."""

    def as_dict(self) -> dict[str, Any]:
        """Lists that JSON can hold, None where a bin is empty."""
        return {
            "edges": self.edges.tolist(),
            "count": self.count.tolist(),
            "mean_probability": _without_nan(self.mean_probability),
            "observed": _without_nan(self.observed),
        }


def reliability(truth: Bools, probabilities: npt.NDArray[np.floating], bins: int = 10) -> Reliability:
    """Bin the probabilities (N, K) of each class by themselves and compare them with the truth (N, K)."""
    _check_probabilities(truth, probabilities)
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    classes = truth.shape[1]
    edges = np.linspace(0.0, 1.0, bins + 1)
    cell = (np.searchsorted(edges[1:-1], probabilities) + bins * np.arange(classes)).ravel()

    def total(values: npt.NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(cell, values.ravel(), classes * bins), np.float64).reshape(classes, bins)

    count = np.bincount(cell, minlength=classes * bins).reshape(classes, bins)
    filled = np.where(count, count, np.nan)
    return Reliability(edges, count, total(probabilities) / filled, total(truth) / filled)


def expected_calibration_error(truth: Bools, probabilities: npt.NDArray[np.floating], bins: int = 10) -> Floats:
    """(K,) mean distance between probability and frequency over the rows' bins; NaN without rows."""
    found = reliability(truth, probabilities, bins)
    gap = np.nan_to_num(np.abs(found.mean_probability - found.observed))
    return np.asarray((found.count * gap).sum(axis=1) / (len(truth) or np.nan))


def brier_score(truth: Bools, probabilities: npt.NDArray[np.floating]) -> Floats:
    """(K,) mean squared distance between probability and truth (N, K); NaN without rows."""
    _check_probabilities(truth, probabilities)
    return np.asarray(np.square(probabilities - truth).sum(axis=0, dtype=np.float64) / (len(truth) or np.nan))


def to_probabilities(logits: npt.NDArray[np.floating], temperature: float, multi_label: bool) -> Floats:
    """(N, K) sigmoid of each logit / temperature where classes are independent labels, else softmax over a row."""
    from scipy.special import expit, softmax

    scaled = np.asarray(logits, np.float64) / temperature
    return np.asarray(expit(scaled) if multi_label else softmax(scaled, axis=1))


def fit_temperature(
    logits: npt.NDArray[np.floating], truth: Bools, multi_label: bool, *, groups: Groups | None = None
) -> float:
    """The temperature that makes the truth (N, K) likeliest under ``to_probabilities`` of the logits (N, K).

    The likelihood's slope in 1 / temperature only falls, so its root is the one maximum; where it has
    none in ``TEMPERATURES`` (logits that separate the classes, or are no better than chance), the nearer end.
    ``groups`` (N,): what shall be right are the means over a group's rows, a recording's say. A mean is less certain
    than its parts, so a temperature fitted on these would leave it too timid.
    """
    from scipy.optimize import brentq

    check_classes(truth, logits)
    if not len(truth):
        raise ValueError("a temperature needs at least one row")
    if not multi_label and not (truth.sum(axis=1) == 1).all():
        raise ValueError("each row must have exactly one class; pass multi_label=True where it may have several")
    values = np.asarray(logits, np.float64)
    if groups is not None:
        return _fit_pooled(values, truth, multi_label, groups)

    def surplus(log_temperature: float) -> float:
        """The slope of the mean likelihood: positive where the logits, so scaled, are too timid."""
        return float(np.mean((truth - to_probabilities(values, np.exp(log_temperature), multi_label)) * values))

    sharpest, flattest = np.log(TEMPERATURES)
    if surplus(sharpest) >= 0:
        return TEMPERATURES[0]
    if surplus(flattest) <= 0:
        return TEMPERATURES[1]
    return float(np.exp(brentq(surplus, sharpest, flattest, xtol=1e-10)))


def _fit_pooled(logits: Floats, truth: Bools, multi_label: bool, groups: Groups) -> float:
    from scipy.optimize import minimize_scalar

    whole = pool_truth(truth, groups)[1]

    def surprise(log_temperature: float) -> float:
        """Minus the mean likelihood of the groups' truth."""
        found = pool(to_probabilities(logits, np.exp(log_temperature), multi_label), groups)[1].clip(1e-12, 1 - 1e-12)
        return -float(
            np.mean(np.where(whole, np.log(found), np.log1p(-found)) if multi_label else np.log(found[whole]))
        )

    return float(np.exp(minimize_scalar(surprise, bounds=np.log(TEMPERATURES), method="bounded").x))


def adjust_probabilities(
    pooled: npt.NDArray[np.floating],
    slope: npt.NDArray[np.floating],
    offset: npt.NDArray[np.floating],
    multi_label: bool,
) -> Floats:
    """Means of probabilities (G, K) as probabilities of the whole: evidence times slope (K,), plus offset (K,).

    A mean is too timid where few of its parts can show a class. Evidence: log odds, or log probabilities where classes
    exclude each other.
    """
    return to_probabilities(_evidence(pooled, multi_label) * slope + offset, 1.0, multi_label)


def fit_adjustment(pooled: npt.NDArray[np.floating], truth: Bools, multi_label: bool) -> tuple[Floats, Floats]:
    """Return slope and offset (K,) that make the truth (G, K) likeliest, with a prior at no adjustment."""
    from scipy.optimize import minimize

    _check_probabilities(truth, pooled)
    evidence, classes = _evidence(pooled, multi_label), truth.shape[1]

    def surprise(numbers: Floats) -> tuple[float, Floats]:
        """Minus the log likelihood and the prior's, and the gradient."""
        slope, offset = numbers[:classes], numbers[classes:]
        found = to_probabilities(evidence * slope + offset, 1.0, multi_label).clip(1e-12, 1 - 1e-12)
        likely = np.where(truth, np.log(found), np.log1p(-found)) if multi_label else np.log(found[truth])
        labels = 1 if multi_label else truth.sum(1, keepdims=True)  # of a whole whose parts differ, several
        error, strange = found * labels - truth, np.concatenate([slope - 1, offset])
        gradient = np.concatenate([(error * evidence).sum(0), error.sum(0)]) + PRIOR * strange
        return float(PRIOR * np.square(strange).sum() / 2 - likely.sum()), gradient

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    bounds = [SLOPES] * classes + [(None, None)] * classes
    best = minimize(surprise, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.asarray(best[:classes]), np.asarray(best[classes:])


def _evidence(pooled: npt.NDArray[np.floating], multi_label: bool) -> Floats:
    inside = np.asarray(pooled, np.float64).clip(SURE, 1 - SURE)
    return np.asarray(np.log(inside) - (np.log1p(-inside) if multi_label else 0.0))


def _check_probabilities(truth: Bools, probabilities: npt.NDArray[np.floating]) -> None:
    check_classes(truth, probabilities)
    if probabilities.size and not (probabilities.min() >= 0 and probabilities.max() <= 1):
        raise ValueError(
            "probabilities must lie from 0 to 1; pass logits through clocs.metrics.calibration.to_probabilities first"
        )


def _without_nan(values: Floats) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]
