"""Distances of recordings from the training recordings of a classifier, in the space of its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError

Floats = npt.NDArray[np.float32]
SHRINKAGE: Final = 1e-3
"""Fraction of the mean variance that is added to each variance, so that few recordings have a covariance."""
MAX_COMPONENTS: Final = 128
"""Dimension of an embedding up to which all principal components are compared."""
NUM_COMPONENTS: Final = 48
"""Components of wider embeddings that are compared; the matrix of all would fill megabytes. They are spread evenly over
the quarter with the largest variances, because noise is no outlier along the very largest ones."""


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Distribution of the mean embeddings of training recordings: a mean for each lead, one covariance for all.

    The distance of a recording is its squared Mahalanobis distance within some principal components, as a mean over
    leads and components: about 1 for a typical training recording.
    """

    mean: Floats
    """Mean embedding of each lead, (L, E); L is 1 for an encoder of several leads at once."""
    whitening: Floats
    """Matrix (E, K) after which embeddings have unit covariance; K is E, or 48 for wide embeddings."""

    @classmethod
    def fit(cls, features: npt.NDArray[np.floating], embedding_dim: int, num_statistics: int) -> Self:
        """Fit to features of training recordings.

        Args:
            features: Features (N, D), of which the first are the means over frames.
            embedding_dim: E, the dimension of an embedding.
            num_statistics: Number of statistics over frames.
        """
        num_leads = features.shape[1] // (embedding_dim * num_statistics)
        means = features[:, : num_leads * embedding_dim].astype(np.float32).reshape(len(features), num_leads, -1)
        mean = means.mean(axis=0)
        rows = (means - mean).reshape(-1, embedding_dim)
        covariance = (rows.T @ rows / max(1, len(rows))).astype(np.float64)
        covariance += max(SHRINKAGE * np.trace(covariance) / embedding_dim, 1e-12) * np.eye(embedding_dim)
        variances, axes = np.linalg.eigh(covariance)
        kept = np.arange(embedding_dim)
        if embedding_dim > MAX_COMPONENTS:
            kept = embedding_dim - 1 - np.linspace(embedding_dim // 4 - 1, 0, NUM_COMPONENTS).astype(np.int64)
        return cls(mean, np.asarray(axes[:, kept] / np.sqrt(variances[kept]), np.float32))

    def distances(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return the distances (N,) of recordings with features (N, D)."""
        num_leads, embedding_dim = self.mean.shape
        if features.ndim != 2 or features.shape[1] < num_leads * embedding_dim:
            raise ConfigError(f"Expected at least {num_leads * embedding_dim} features, got {features.shape}.")
        means = features[:, : num_leads * embedding_dim].reshape(len(features), num_leads, embedding_dim)
        return np.asarray(np.square((means - self.mean) @ self.whitening).mean(axis=(1, 2)), np.float64)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a file stores: the matrix as float16, times a factor for each column."""
        factor = np.abs(self.whitening).max(axis=0)
        return {
            "mean": self.mean,
            "whitening": (self.whitening / factor).astype(np.float16),
            "whitening_factor": factor,
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]], prefix: str) -> Self:
        """Return the space of the tensors of a file whose names have a prefix.

        Raises:
            ConfigError: Shapes do not agree.
        """
        mean = np.asarray(tensors[f"{prefix}mean"], np.float32)
        whitening = tensors[f"{prefix}whitening"].astype(np.float32) * tensors[f"{prefix}whitening_factor"]
        fits = mean.ndim == whitening.ndim == 2 and mean.shape[1] == len(whitening)
        if not fits or not np.isfinite(whitening).all():
            raise ConfigError(f"Expected means (L, E) and a finite matrix (E, K), got {mean.shape}, {whitening.shape}.")
        return cls(mean, whitening)
