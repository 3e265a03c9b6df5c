"""Thresholds that are chosen on validation rows, and metrics of the decisions that they make on other rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import Bools, Floats, Ranking, check_classes, check_weights


@dataclass(frozen=True)
class Thresholds:
    """One threshold per class. A row at or above it is predicted as positive.

    Example:
        >>> truth = np.array([[False], [True], [False], [True]])
        >>> chosen = Thresholds.fit(truth, np.array([[0.1], [0.4], [0.3], [0.9]]))
        >>> chosen.values
        array([0.4])
        >>> chosen.apply(np.array([[0.2], [0.4]])).tolist()
        [[False], [True]]
    """

    values: Floats
    """Thresholds of shape (K,). A class with an infinite threshold is never predicted."""

    @classmethod
    def fit(cls, truth: Bools, scores: npt.NDArray[np.floating], *, untrained: Bools | None = None) -> Thresholds:
        """Choose the thresholds with the highest F1 on validation rows. Test rows are not an argument.

        Every score of a validation row is tried. Of several thresholds with the same F1, the highest is chosen, which
        predicts the fewest positives.

        Args:
            truth: Labels of validation rows, of shape (N, K).
            scores: Their scores, of shape (N, K).
            untrained: Classes without a labelled training positive, of shape (K,). They are never predicted.

        Returns:
            The thresholds. They are infinite for untrained classes and for classes without a validation positive.
        """
        ranking, num_positives = Ranking(truth, scores), truth.sum(axis=0)
        values = np.full(truth.shape[1], np.inf)
        for column, ((true, false), candidates) in enumerate(zip(ranking.counts(), ranking.thresholds(), strict=True)):
            if num_positives[column] and (untrained is None or not untrained[column]):
                values[column] = candidates[np.argmax(2 * true / (true + false + num_positives[column]))]
        return cls(values)

    def apply(self, scores: npt.NDArray[np.floating]) -> Bools:
        """Return the predicted classes of rows, of shape (N, K), from their scores of shape (N, K)."""
        if scores.ndim != 2 or scores.shape[1:] != self.values.shape:
            raise ValueError(f"Expected scores of shape (N, {len(self.values)}), got {scores.shape}.")
        return np.asarray((scores >= self.values) & np.isfinite(self.values))

    def as_list(self) -> list[float | None]:
        """Return the thresholds for JSON, with None for classes that are never predicted."""
        return [float(value) if np.isfinite(value) else None for value in self.values]


def highest_score(scores: npt.NDArray[np.floating], *, untrained: Bools | None = None) -> Bools:
    """Predict the class with the highest score of each row, as exclusive classes need.

    Args:
        scores: Scores of shape (N, K).
        untrained: Classes without a labelled training positive, of shape (K,). They are never predicted.

    Returns:
        Predicted classes of shape (N, K), one per row. Of classes with the same score, the first one is predicted.
    """
    allowed = np.asarray(scores, np.float64) if untrained is None else np.where(untrained, -np.inf, scores)
    return np.asarray(np.arange(scores.shape[1]) == allowed.argmax(axis=1)[:, None])


@dataclass(frozen=True)
class Decisions:
    """Weights of right and wrong decisions of each class, of shape (K,) or (K, B) each."""

    true_positives: Floats
    """Weight of positives that are predicted."""
    predicted: Floats
    """Weight of predicted rows."""
    positives: Floats
    """Weight of positive rows."""
    total: Floats
    """Weight of all rows, as a scalar or of shape (B,)."""

    @classmethod
    def count(cls, truth: Bools, predicted: Bools, weights: npt.ArrayLike | None = None) -> Decisions:
        """Count the decisions.

        Args:
            truth: Labels of shape (N, K).
            predicted: Predicted classes of shape (N, K).
            weights: Weight of each row, of shape (N,) or (N, B); None for equal weights.

        Returns:
            The counts.
        """
        check_classes(truth, predicted)
        weight = check_weights(len(truth), weights)
        both, chosen, labelled = (part.T.astype(np.float64) @ weight for part in (truth & predicted, predicted, truth))
        return cls(both, chosen, labelled, weight.sum(axis=0))

    def f1(self) -> Floats:
        """Return the harmonic mean of precision and sensitivity; NaN for a class without positives."""
        return _ratio(2 * self.true_positives, self.predicted + self.positives, self.positives)

    def sensitivity(self) -> Floats:
        """Return the fraction of positives that are predicted; NaN for a class without positives."""
        return _ratio(self.true_positives, self.positives, self.positives)

    def specificity(self) -> Floats:
        """Return the fraction of negatives that are not predicted; NaN for a class without negatives."""
        negatives = self.total - self.positives
        return _ratio(negatives - (self.predicted - self.true_positives), negatives, negatives)

    def accuracy(self) -> Floats:
        """Return the fraction of rows whose class is predicted, if classes are exclusive; a scalar or (B,)."""
        return _ratio(self.true_positives.sum(axis=0), self.total, self.total)


def confusion_matrix(truth: Bools, predicted: Bools) -> npt.NDArray[np.int64]:
    """Count the rows of each class (first axis) that each class is predicted for (second axis).

    Args:
        truth: Labels of exclusive classes, of shape (N, K), one per row.
        predicted: Predicted classes of shape (N, K), one per row.

    Returns:
        Counts of shape (K, K).

    Raises:
        ValueError: A row has no class or several classes.
    """
    check_classes(truth, predicted)
    for name, classes in (("truth", truth), ("predicted", predicted)):
        if not (classes.sum(axis=1) == 1).all():
            raise ValueError(f"Expected one class per row of {name}. Use Decisions for rows with several classes.")
    return truth.T.astype(np.int64) @ predicted.astype(np.int64)


def _ratio(numerator: Floats, denominator: Floats, needed: Floats) -> Floats:
    """Return the quotient, NaN where ``needed`` is not positive."""
    found = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    return np.asarray(np.divide(numerator, denominator, out=found, where=needed > 0))
