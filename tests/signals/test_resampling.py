"""Resampling compared with sines at known sampling rates, and with SciPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.signals.resampling import Floats, resample, resample_to_length, resampled_length


def sine(hertz: float, sampling_rate: float, seconds: float = 10.0) -> Floats:
    time = np.arange(round(seconds * sampling_rate)) / sampling_rate
    return np.sin(2 * np.pi * hertz * time + 0.3).astype(np.float32)


@pytest.mark.parametrize(
    ("sampling_rate", "target_rate"), [(500, 250), (250, 500), (300, 500), (360, 500), (1000, 500), (257, 500)]
)
@pytest.mark.parametrize("hertz", [1.0, 7.0, 25.0])
def test_a_sine_keeps_its_frequency_and_size(sampling_rate: float, target_rate: float, hertz: float) -> None:
    """The result is the same sine sampled at the target rate, except for half a second at each end."""
    made = resample(sine(hertz, sampling_rate), sampling_rate, target_rate)
    assert made.dtype == np.float32
    assert made.shape == (math.ceil(10 * target_rate),)
    edge = round(target_rate / 2)
    np.testing.assert_allclose(made[edge:-edge], sine(hertz, target_rate)[edge:-edge], atol=0.01)


@pytest.mark.parametrize("sampling_rate", [499.8, 999.8, 249.89, 250.1, 124.99])
def test_sampling_rates_near_a_simple_ratio_do_not_drift(sampling_rate: float) -> None:
    """After ten minutes, a sine has the right phase. A ratio of 1 instead of 0.9996 would shift it by 0.25 s."""
    made = resample(sine(2.0, sampling_rate, 600.0), sampling_rate, 500)
    num_samples = np.array([round(600 * sampling_rate)])
    assert abs(len(made) - resampled_length(num_samples, sampling_rate, 500)[0]) <= 1
    late = slice(590 * 500, 590 * 500 + 2500)
    np.testing.assert_allclose(made[late], sine(2.0, 500, 600.0)[late], atol=0.02)


@pytest.mark.parametrize("sampling_rate", [150_000, 1_000_000])
def test_sampling_rates_with_a_ratio_above_a_thousand(sampling_rate: float) -> None:
    made = resample(sine(2.0, sampling_rate, 2.0), sampling_rate, 100)
    np.testing.assert_allclose(made[50:-50], sine(2.0, 100, 2.0)[50:-50], atol=0.01)


def test_frequencies_above_the_new_nyquist_frequency_are_filtered_out() -> None:
    """Without a filter, 200 Hz would become 50 Hz when every second sample is dropped."""
    made = resample(sine(200, 500), 500, 250)
    assert np.abs(made[125:-125]).max() < 0.01
    assert np.abs(sine(200, 500)[::2][125:-125]).max() > 0.9


def test_an_offset_is_kept_up_to_the_edges() -> None:
    """The ripple of SciPy's default filter is below a thousandth."""
    np.testing.assert_allclose(resample(np.full(1000, 3.0, np.float32), 300, 500), 3.0, rtol=1e-3)


@pytest.mark.parametrize(
    ("sampling_rate", "target_rate"), [(250, 500), (1000, 500), (300, 500), (200, 500), (500, 100), (257, 500)]
)
@pytest.mark.parametrize("num_samples", [1, 40, 2503])
def test_resample_is_the_polyphase_method_of_scipy(sampling_rate: int, target_rate: int, num_samples: int) -> None:
    """Results are equal to the last bit, whether SciPy computes them or not, so that runs can be repeated."""
    signal = np.random.default_rng(0).normal(size=(2, 3, num_samples)).astype(np.float32)
    up, down = (rate // math.gcd(sampling_rate, target_rate) for rate in (target_rate, sampling_rate))
    expected = scipy.signal.resample_poly(signal, up, down, axis=-1, window=("kaiser", 5.0), padtype="edge")
    np.testing.assert_array_equal(resample(signal, sampling_rate, target_rate), expected)


def test_leads_do_not_mix() -> None:
    both = np.stack([sine(3, 300), sine(11, 300)])
    np.testing.assert_array_equal(resample(both, 300, 500)[1], resample(both[1], 300, 500))


def test_the_same_sampling_rate_changes_nothing() -> None:
    signal = sine(3, 500)
    np.testing.assert_array_equal(resample(signal, 500.0, 500), signal)
    np.testing.assert_array_equal(resample_to_length(signal, len(signal)), signal)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_samples_are_rejected(bad: float) -> None:
    signal = sine(3, 500)
    signal[7] = bad
    with pytest.raises(ValueError, match="Missing samples would spread"):
        resample(signal, 500, 250)
    with pytest.raises(ValueError, match="Missing samples would spread"):
        resample_to_length(signal, 2500)


@settings(max_examples=50)
@given(st.integers(2, 400), st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_resample_to_length_is_the_fourier_method_of_scipy(before: int, after: int, seed: int) -> None:
    signal: npt.NDArray[np.float32] = np.random.default_rng(seed).normal(size=(3, before)).astype(np.float32)
    made = resample_to_length(signal, after)
    assert made.shape == (3, after)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, scipy.signal.resample(signal, after, axis=-1), atol=1e-5)


@pytest.mark.parametrize("after", [2500, 256, 300])
def test_resample_to_length_keeps_complete_periods(after: int) -> None:
    """7 periods in 256 samples are 7 periods in any number of samples."""
    phase = 2 * np.pi * 7 * np.arange(after) / after
    made = resample_to_length(np.sin(2 * np.pi * 7 * np.arange(256) / 256).astype(np.float32), after)
    np.testing.assert_allclose(made, np.sin(phase), atol=1e-5)
