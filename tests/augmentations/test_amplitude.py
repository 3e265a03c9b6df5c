"""One factor a frame."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from clocs.augmentations.amplitude import FlipAmplitude, Scaling
from tests.augmentations.conftest import noise, seeded


def test_the_flip_is_exact() -> None:
    signals = noise(5, 301)
    np.testing.assert_array_equal(FlipAmplitude(probability=1)(signals, seeded()), -signals.numpy())


@pytest.mark.parametrize(("low", "high"), [(0.5, 2), (0.7, 1.4)])
def test_scaling_is_one_factor_a_frame(low: float, high: float) -> None:
    signals = noise(2000, 50, leads=2)
    factors = (Scaling(low=low, high=high)(signals, seeded()) / signals).numpy()
    np.testing.assert_allclose(factors, np.broadcast_to(factors[:, :1, :1], factors.shape), rtol=1e-12)
    assert scipy.stats.kstest(factors[:, 0, 0], "uniform", args=(low, high - low)).pvalue > 1e-3
    default = Scaling()(signals, seeded()) / signals
    assert 0.5 <= float(default.min()) < float(default.max()) <= 0.9
