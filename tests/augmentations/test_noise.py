"""Noise has the configured size, frequencies and number of waves."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
import torch

from clocs.augmentations.noise import BaselineWander, GaussianNoise
from tests.augmentations.conftest import noise, seeded

Array = npt.NDArray[np.float64]


@pytest.mark.parametrize(("sigma", "relative"), [(0.01, False), (0.5, False), (0.1, True)])
def test_gaussian_noise_has_the_configured_deviation(sigma: float, relative: bool) -> None:
    """Standard error of a deviation over n normal draws: 1 / sqrt(2 n) of it; leads of different sizes."""
    signals = noise(16, 2500, leads=4) * torch.logspace(-1, 1, 64, dtype=torch.float64).view(16, 4, 1) + 3
    added = (GaussianNoise(sigma=sigma, relative=relative)(signals, seeded()) - signals).flatten(0, 1).numpy()
    rows = signals.flatten(0, 1).numpy()
    unit = added / (sigma * (rows.std(axis=1, keepdims=True) if relative else 1.0))
    assert abs(unit.std() - 1) < 5 / math.sqrt(2 * unit.size)
    assert np.abs(unit.std(axis=1) - 1).max() < 5 / math.sqrt(2 * 2500)
    assert abs(unit.mean()) < 5 / math.sqrt(unit.size)
    assert scipy.stats.kstest(unit.ravel(), "norm").pvalue > 1e-3
    off_diagonal = np.corrcoef(unit) - np.eye(len(unit))
    assert np.abs(off_diagonal).max() < 6 / math.sqrt(2500)


def drift(options: BaselineWander, rows: int, num_samples: int) -> Array:
    """Return the drift that is added to silence."""
    return options(torch.zeros((rows, 1, num_samples), dtype=torch.float64), seeded())[:, 0].numpy()


def test_a_wander_is_the_sum_of_its_waves() -> None:
    """A literal version, wave by wave and sample by sample, of the draws that the generator makes."""
    made, draws = drift(BaselineWander(), 12, 50), seeded()
    counts, cycles, phases = (torch.rand((12, n), generator=draws, dtype=torch.float64).tolist() for n in (1, 3, 3))
    for row in range(12):
        count = 1 + int(3 * counts[row][0])
        for sample in range(50):
            num_waves = [
                math.sin(2 * math.pi * ((0.25 + 2.25 * cycles[row][wave]) * sample / 50 + phases[row][wave]))
                for wave in range(count)
            ]
            assert made[row, sample] == pytest.approx(0.1 * sum(num_waves) / count, abs=1e-12)


def test_every_lead_has_its_own_waves() -> None:
    """Leads of one frame draw as rows of one lead do."""
    silence = torch.zeros((6, 4, 50), dtype=torch.float64)
    made = BaselineWander()(silence, seeded()).flatten(0, 1).numpy()
    np.testing.assert_array_equal(made, drift(BaselineWander(), 24, 50))
    assert len(np.unique(made, axis=0)) == 24


def test_frequencies_and_phases_are_even() -> None:
    """One wave obeys x[t - 1] + x[t + 1] = 2 cos(w) x[t]; an even phase makes its start arcsine distributed."""
    made = drift(BaselineWander(num_waves=1, min_frequency=5, max_frequency=50), 2000, 500)
    middle, sides = made[:, 1:-1], made[:, :-2] + made[:, 2:]
    cycles = np.arccos((middle * sides).sum(1) / (2 * middle**2).sum(1)) * 500 / (2 * np.pi)
    assert scipy.stats.kstest(cycles, "uniform", args=(5, 45)).pvalue > 1e-3
    assert scipy.stats.kstest(made[:, 0], "arcsine", args=(-0.1, 0.2)).pvalue > 1e-3


def test_one_to_three_waves_share_the_amplitude() -> None:
    """Windows of k waves span 2 k dimensions; k waves of amplitude a / k have the power a^2 / (2 k)."""
    made = drift(BaselineWander(min_frequency=20, max_frequency=400), 600, 1000)
    assert np.abs(made).max() <= 0.1
    windows = np.lib.stride_tricks.sliding_window_view(made, 8, axis=1)
    counts = np.linalg.matrix_rank(windows, rtol=1e-9) / 2
    found, times = np.unique(counts, return_counts=True)
    assert found.tolist() == [1, 2, 3]
    assert scipy.stats.chisquare(times).pvalue > 1e-3
    power = (made**2).mean(axis=1) * 2 * counts / 0.1**2
    assert abs(np.median(power) - 1) < 0.01


def test_a_relative_wander_is_as_large_as_the_lead() -> None:
    signals = noise(8, 500) * torch.logspace(-1, 1, 8, dtype=torch.float64)[:, None, None] + 3
    options = BaselineWander(relative=True, amplitude=0.5)
    added = (options(signals, seeded()) - signals).numpy() / signals.numpy().std(axis=-1, keepdims=True)
    np.testing.assert_allclose(added[:, 0], drift(BaselineWander(amplitude=0.5), 8, 500), atol=1e-9)
    assert not options.needs_millivolt
    assert BaselineWander().needs_millivolt
