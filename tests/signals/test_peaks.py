"""Peaks compared with SciPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from clocs.signals.peaks import find_peaks


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.integers(2, 9), st.integers(1, 10), st.sampled_from([-np.inf, 1.0]), st.integers(0))
def test_peaks_are_those_of_scipy(length: int, levels: int, distance: int, min_height: float, seed: int) -> None:
    """A few levels make plateaus and peaks of equal height, many make a curve without them."""
    random = np.random.default_rng(seed)
    for curve in (random.integers(0, levels, length).astype(np.float64), random.normal(size=length)):
        expected = signal.find_peaks(curve, distance=distance, height=min_height)[0]
        np.testing.assert_array_equal(find_peaks(curve, distance=distance, min_height=min_height), expected)
