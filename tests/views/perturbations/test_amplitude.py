"""One factor a view."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from clocs.views.perturbations.amplitude import FlipAmplitude, Scaling
from tests.views.perturbations.conftest import noise, seeded


def test_the_flip_is_exact() -> None:
    signals = noise(5, 301)
    np.testing.assert_array_equal(FlipAmplitude(probability=1)(signals, seeded()), -signals.numpy())


@pytest.mark.parametrize(("low", "high"), [(0.5, 2), (0.7, 1.4)])
def test_scaling_is_one_factor_a_row(low: float, high: float) -> None:
    signals = noise(2000, 50)
    factors = (Scaling(low=low, high=high)(signals, seeded()) / signals).numpy()
    np.testing.assert_allclose(factors, factors[:, :1].repeat(50, axis=1), rtol=1e-12)
    assert scipy.stats.kstest(factors[:, 0], "uniform", args=(low, high - low)).pvalue > 1e-3
    default = Scaling()(signals, seeded()) / signals
    assert 0.5 <= float(default.min()) < float(default.max()) <= 0.9
