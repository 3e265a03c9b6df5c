"""A linear probe that is cheap enough to fit while an encoder trains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.metrics.ranking import auc, macro_average

Bools = npt.NDArray[np.bool_]
Embeddings = npt.NDArray[np.floating]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OnlineProbe:
    """Linear classifier that measures how well an encoder's embeddings separate the classes.

    The classifier is a ridge regression of every class on standardized embeddings, solved in closed form: it has no
    learning rate, no epochs and no random numbers. Its AUC follows that of a logistic regression closely enough to
    see whether an encoder improves. For results, use :func:`clocs.probe`.

    Args:
        strength: Penalty on the squared weights, per training frame.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = np.eye(3, dtype=bool)[rng.integers(0, 3, 200)]
        >>> embeddings = truth @ rng.normal(size=(3, 8)) + 0.1 * rng.normal(size=(200, 8))
        >>> OnlineProbe().validation_auc(embeddings[:100], truth[:100], embeddings[100:], truth[100:])
        1.0
    """

    strength: float = 1e-2

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise ValueError(f"strength must be greater than 0, got {self.strength}")

    def validation_auc(
        self,
        train_embeddings: Embeddings,
        train_truth: Bools,
        validation_embeddings: Embeddings,
        validation_truth: Bools,
    ) -> float | None:
        """Fit the probe on training frames and return its macro AUC on validation frames.

        Args:
            train_embeddings: (N, E) embeddings of labelled training frames.
            train_truth: (N, K) whether a frame has a class.
            validation_embeddings: (M, E) embeddings of labelled validation frames.
            validation_truth: (M, K) whether a frame has a class.

        Returns:
            The mean AUC of the classes that have positives and negatives in both parts; None if these are fewer
            than two.

        Raises:
            ValueError: The shapes do not match, the truth is not bool, or embeddings are not finite.
        """
        _check(train_embeddings, train_truth)
        _check(validation_embeddings, validation_truth)
        usable = _has_both(train_truth) & _has_both(validation_truth)
        if usable.sum() < 2:
            return None
        scores = ridge_scores(train_embeddings, train_truth[:, usable], validation_embeddings, self.strength)
        return macro_average(auc(validation_truth[:, usable], scores))


def ridge_scores(train_embeddings: Embeddings, train_truth: Bools, embeddings: Embeddings, strength: float) -> Floats:
    """Fit a ridge regression with an intercept on standardized embeddings and return its predictions.

    Args:
        train_embeddings: (N, E) embeddings to fit on; their mean and standard deviation standardize all embeddings.
        train_truth: (N, K) targets.
        embeddings: (M, E) embeddings to predict.
        strength: Penalty on the squared weights, times N.

    Returns:
        (M, K) predictions.
    """
    values, targets = np.asarray(train_embeddings, np.float64), np.asarray(train_truth, np.float64)
    mean, scale = values.mean(axis=0), values.std(axis=0)
    scale[scale == 0] = 1.0
    inputs, offset = (values - mean) / scale, targets.mean(axis=0)
    penalty = strength * len(inputs) * np.eye(inputs.shape[1])
    weights = np.linalg.solve(inputs.T @ inputs + penalty, inputs.T @ (targets - offset))
    return np.asarray((np.asarray(embeddings, np.float64) - mean) / scale @ weights + offset, np.float64)


def _check(embeddings: Embeddings, truth: Bools) -> None:
    if truth.dtype != np.bool_:
        raise ValueError(f"Expected bool truth, got {truth.dtype}")
    if embeddings.ndim != 2 or truth.ndim != 2 or len(embeddings) != len(truth):
        raise ValueError(
            f"Expected embeddings (N, E) and truth (N, K) of the same N, got {embeddings.shape} and {truth.shape}"
        )
    if not np.isfinite(embeddings).all():
        raise ValueError(
            f"{int((~np.isfinite(embeddings)).any(axis=1).sum())} of {len(embeddings)} embeddings are not finite"
        )


def _has_both(truth: Bools) -> Bools:
    """Return whether each class has positives and negatives, (K,)."""
    return np.asarray(truth.any(axis=0) & ~truth.all(axis=0))
