"""Standardisation and PCA of features equal scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.feature_transforms import FeaturePCA, Standardization

RANDOM = np.random.default_rng(0)
VALUES = (RANDOM.normal(size=(300, 5)) @ RANDOM.normal(size=(5, 40)) + RANDOM.normal(size=(300, 40)) / 4).astype("f4")


def test_standardisation_equals_scikit_learn() -> None:
    fitted = Standardization.fit(VALUES[:200])
    expected = StandardScaler().fit(VALUES[:200].astype(np.float64)).transform(VALUES)
    np.testing.assert_allclose(fitted.transform(VALUES), expected, atol=1e-5)


def test_missing_and_constant_values_become_zero() -> None:
    values = VALUES.copy()
    values[::3, 0] = np.nan
    values[:, 1] = 7.1
    values[:, 2] = np.nan
    scaled = Standardization.fit(values).transform(values)
    known = np.delete(VALUES[:, 0], np.s_[::3])
    np.testing.assert_allclose(np.delete(scaled[:, 0], np.s_[::3]), (known - known.mean()) / known.std(), atol=1e-5)
    assert not scaled[::3, 0].any()
    assert not scaled[:, 1:3].any()


def test_pca_equals_scikit_learn() -> None:
    values = Standardization.fit(VALUES).transform(VALUES)
    found, expected = FeaturePCA.fit(values, 5).transform(values), PCA(5).fit_transform(values)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-3)
    with pytest.raises(ConfigError, match="41 dimensions"):
        FeaturePCA.fit(values, 41)
