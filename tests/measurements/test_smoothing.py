"""Filters give what ``scipy.ndimage`` gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import fft, ndimage

from clocs.measurements.smoothing import fast_length, gaussian_filter, maximum_filter, mean_filter


@pytest.fixture
def values() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(2, 3, 400)).astype(np.float32)


@pytest.mark.parametrize("width", [1, 2, 9, 300, 1000])
def test_mean(values: npt.NDArray[np.float32], width: int) -> None:
    np.testing.assert_array_equal(mean_filter(values, width), ndimage.uniform_filter1d(values, width, axis=2))


@pytest.mark.parametrize("reach", [1, 2, 5, 40])
def test_maximum(values: npt.NDArray[np.float32], reach: int) -> None:
    row = values[0, 0]
    np.testing.assert_array_equal(maximum_filter(row, reach), ndimage.maximum_filter1d(row, 2 * reach + 1))


@pytest.mark.parametrize("sigma", [0.1, 1.25, 6.0, 90.0])
@pytest.mark.parametrize("order", [0, 1])
def test_gaussian(values: npt.NDArray[np.float32], sigma: float, order: int) -> None:
    expected = ndimage.gaussian_filter1d(values, sigma, axis=2, order=order, mode="nearest", truncate=3.0)
    found = gaussian_filter(values, sigma, slope=order == 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_lengths_of_fourier_transforms() -> None:
    numbers = [*range(1, 3000), 123_457, 5**9 + 1]
    assert [fast_length(number) for number in numbers] == [fft.next_fast_len(number, real=True) for number in numbers]
