"""Metrics of class scores as functions of row weights, for :func:`clocs.metrics.bootstrap.bootstrap`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.metrics.calibration import brier_score, expected_calibration_error
from clocs.metrics.challenges import Challenge
from clocs.metrics.ranking import Bools, Floats, Ranking, check_classes
from clocs.metrics.resampling import Patients
from clocs.metrics.thresholds import Decisions, Thresholds, highest_score

RANKING: Final = ("auc", "average_precision")
"""Metrics of the order of scores."""
THRESHOLDED: Final = ("f1", "sensitivity", "specificity")
"""Metrics of decisions by thresholds, class by class."""
EXCLUSIVE: Final = ("accuracy", "argmax_f1")
"""Metrics of decisions for the class with the highest score."""
CALIBRATION: Final = ("calibration_error", "brier")
"""Metrics of probabilities."""


class ClassMetrics:
    """Metrics of class scores.

    All metrics have a value per class, except ``accuracy`` and challenge scores, which have one for all classes.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K); probabilities for the metrics of calibration.
        patients: Patient of each row, of shape (N,).
        names: Metrics to compute, from ``RANKING``, ``THRESHOLDED``, ``EXCLUSIVE`` and ``CALIBRATION``.
        thresholds: Thresholds that were chosen on other rows; needed for ``THRESHOLDED`` metrics.
        untrained: Classes without a labelled training positive, of shape (K,). All rows have the same score in their
            ranking: their AUC is 0.5 and their average precision the fraction of positives. They are never predicted.
        challenge: Score of a challenge to compute in addition.

    Raises:
        ValueError: Shapes do not match, a name is unknown, or thresholds are missing.
    """

    def __init__(
        self,
        truth: Bools,
        scores: npt.NDArray[np.floating],
        patients: Patients,
        *,
        names: Sequence[str] = RANKING,
        thresholds: Thresholds | None = None,
        untrained: Bools | None = None,
        challenge: Challenge | None = None,
    ) -> None:
        check_classes(truth, scores)
        if unknown := set(names) - {*RANKING, *THRESHOLDED, *EXCLUSIVE, *CALIBRATION}:
            raise ValueError(f"Unknown metrics: {', '.join(sorted(unknown))}.")
        needs_thresholds = bool(set(names) & set(THRESHOLDED)) or (challenge is not None and not challenge.exclusive)
        if needs_thresholds and thresholds is None:
            raise ValueError("Decisions need thresholds. Choose them on validation rows with Thresholds.fit().")
        if untrained is not None and untrained.shape != truth.shape[1:]:
            raise ValueError(f"Expected untrained of shape {truth.shape[1:]}, got {untrained.shape}.")
        self.truth, self.patients, self.names = truth, patients, tuple(names)
        self._scores, self._thresholds, self._untrained = scores, thresholds, untrained
        self._challenge = challenge

    @property
    def symmetric(self) -> frozenset[str]:
        """Return the names of metrics that are not bounded by 0 and 1."""
        return frozenset() if self._challenge is None else self._challenge.symmetric

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Return metrics by name, of shape (K, B) or (B,), from weights of shape (N, B)."""
        found: dict[str, Floats] = {}
        if set(self.names) & set(RANKING):
            found |= zip(RANKING, self._ranking.auc_and_average_precision(weights), strict=True)
        if set(self.names) & set(THRESHOLDED):
            decided = Decisions.count(self.truth, self.thresholded, weights)
            found |= {"f1": decided.f1(), "sensitivity": decided.sensitivity(), "specificity": decided.specificity()}
        if set(self.names) & set(EXCLUSIVE):
            decided = Decisions.count(self.truth, self.highest, weights)
            found |= {"accuracy": decided.accuracy(), "argmax_f1": decided.f1()}
        if "calibration_error" in self.names:
            found["calibration_error"] = expected_calibration_error(self.truth, self._scores, weights=weights)
        if "brier" in self.names:
            found["brier"] = brier_score(self.truth, self._scores, weights=weights)
        found = {name: found[name] for name in self.names}
        if self._challenge is not None:
            answers = self.highest if self._challenge.exclusive else self.thresholded
            found |= self._challenge(self.truth, answers, weights)
        return found

    @cached_property
    def thresholded(self) -> Bools:
        """Return the classes that are predicted by thresholds, of shape (N, K)."""
        assert self._thresholds is not None
        return self._thresholds.apply(self._scores)

    @cached_property
    def highest(self) -> Bools:
        """Return the class with the highest score of each row, of shape (N, K)."""
        return highest_score(self._scores, untrained=self._untrained)

    @cached_property
    def _ranking(self) -> Ranking:
        same = self._scores if self._untrained is None else np.where(self._untrained, 0.0, self._scores)
        return Ranking(self.truth, same)
