"""Transforms of recording features that are fitted without labels: standardization and PCA."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.signals.resampling import Floats

MIN_SCALE = 1e-6
"""Standard deviation, relative to the mean size of a feature, below which the feature counts as constant."""
OVERSAMPLING, POWER_ITERATIONS = 64, 3
"""Additional directions and repetitions of the randomized PCA, which make the components exact to three digits."""


@dataclass(frozen=True)
class Standardization:
    """Scaling of features to mean 0 and standard deviation 1. Missing values become 0, the mean."""

    mean: Floats
    """Mean of each feature, (D,)."""
    scale: Floats
    """Factor of each feature, (D,); 0 for a constant feature."""

    @classmethod
    def fit(cls, values: Floats) -> Standardization:
        """Fit to features.

        Args:
            values: Features of unlabelled training recordings, (N, D), with NaN for missing values.

        Example:
            >>> standardization = Standardization.fit(np.array([[1, 5], [3, 5]], np.float32))
            >>> standardization.transform(np.array([[4, 5], [np.nan, 6]], np.float32)).tolist()
            [[2.0, 0.0], [0.0, 0.0]]
        """
        total, squares = np.zeros(values.shape[1]), np.zeros(values.shape[1])
        known = np.zeros(values.shape[1])
        for begin in range(0, len(values), 1024):
            part = values[begin : begin + 1024].astype(np.float64)
            known += (~np.isnan(part)).sum(0)
            total += np.nansum(part, axis=0)
            squares += np.nansum(part * part, axis=0)
        mean = total / np.maximum(known, 1)
        std = np.sqrt(np.maximum(squares / np.maximum(known, 1) - mean**2, 0))
        varies = std > MIN_SCALE * np.maximum(np.abs(mean), MIN_SCALE)
        scale = np.where(varies, 1 / np.where(varies, std, 1), 0)
        return cls(mean.astype(np.float32), scale.astype(np.float32))

    def transform(self, values: Floats) -> Floats:
        """Return standardized features (N, D), float32."""
        scaled = values - self.mean
        scaled *= self.scale
        return np.asarray(np.nan_to_num(scaled, copy=False, nan=0.0))


@dataclass(frozen=True)
class FeaturePCA:
    """Projection of standardized features on their principal components, without whitening."""

    components: Floats
    """Orthonormal components, (count, D)."""

    @classmethod
    def fit(cls, values: Floats, count: int, *, seed: int = 0) -> FeaturePCA:
        """Fit to features by randomized subspace iteration (Halko, Martinsson and Tropp, 2011).

        Args:
            values: Standardized features of unlabelled training recordings, (N, D).
            count: Number of components.
            seed: Seed of the first subspace.

        Raises:
            ConfigError: There are fewer recordings or features than components.
        """
        if min(values.shape) < count:
            raise ConfigError(f"PCA to {count} dimensions needs at least as many recordings and features.")
        matrix = torch.from_numpy(values)
        width = min(count + OVERSAMPLING, *values.shape)
        start = generator(seed, "feature pca").standard_normal((values.shape[1], width), np.float32)
        basis = torch.linalg.qr(torch.from_numpy(start))[0]
        for _ in range(POWER_ITERATIONS):
            basis = torch.linalg.qr(matrix.T @ (matrix @ basis))[0]
        _, _, directions = torch.linalg.svd(matrix @ basis, full_matrices=False)
        return cls(np.ascontiguousarray((directions[:count] @ basis.T).numpy()))

    def transform(self, values: Floats) -> Floats:
        """Return the components (N, count) of standardized features (N, D)."""
        return np.asarray(values @ self.components.T)
