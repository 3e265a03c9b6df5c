"""Frame policies: number of frames, their samples and their normalisation."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from clocs.signals.framing import FramePolicy

VALUES = arrays(np.float32, (3, 24), elements=st.floats(-50, 50, width=32))


def literal_count(num_samples: Fraction | int, window: int) -> int:
    """Count complete windows by cutting them off one by one."""
    count = 0
    while num_samples >= window:
        num_samples -= window
        count += 1
    return count


def count(policy: FramePolicy, num_samples: int, sampling_rate: float) -> int:
    return int(policy.num_frames(np.array([num_samples]), np.array([sampling_rate]))[0])


@given(st.integers(0, 3000), st.integers(1, 300), st.floats(0, 0.99))
def test_the_number_of_overlapping_frames_equals_the_number_of_starts(
    num_samples: int, window: int, overlap: float
) -> None:
    policy = FramePolicy(num_samples=window, sampling_rate=500, overlap=overlap)
    hop = policy.hop_length(500) or 0
    assert hop == max(1, round(window * (1 - overlap)))
    starts = [start for start in range(0, num_samples, hop) if start + window <= num_samples]
    assert count(policy, num_samples, 500) == len(starts)


@given(st.integers(0, 3000), st.integers(1, 300), st.floats(50, 2000))
def test_the_number_of_frames_equals_the_number_of_windows_of_source_samples(
    num_samples: int, window: int, sampling_rate: float
) -> None:
    policy = FramePolicy(num_samples=100, num_source_samples=window)
    assert count(policy, num_samples, sampling_rate) == literal_count(num_samples, window)


@given(st.integers(0, 80_000), st.integers(50, 2000), st.sampled_from([250, 500]), st.integers(1, 3))
def test_the_number_of_frames_at_a_sampling_rate_follows_from_the_resampled_length(
    num_samples: int, sampling_rate: int, target_rate: int, segments: int
) -> None:
    """In exact fractions, n samples become n * target rate / sampling rate samples."""
    policy = FramePolicy(num_samples=1250, num_segments=segments, sampling_rate=target_rate)
    assert count(policy, num_samples, float(sampling_rate)) == literal_count(
        Fraction(num_samples * target_rate, sampling_rate), 1250 * segments
    )


@given(st.integers(1, 40), st.integers(50, 2000), st.integers(-1, 1))
def test_a_recording_of_exactly_n_frames_has_n_frames(frames: int, sampling_rate: int, more: int) -> None:
    """Rounding errors must not add or remove a frame of 5 s."""
    policy = FramePolicy(num_samples=2500, sampling_rate=500)
    assert count(policy, frames * 5 * sampling_rate + more, float(sampling_rate)) == frames - (more < 0)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20))
def test_a_recording_is_one_frame_and_counts_are_computed_element_by_element(num_samples: list[int]) -> None:
    rates = np.full(len(num_samples), 500.0)
    frames = FramePolicy(num_samples=2500, num_source_samples="recording").num_frames(np.array(num_samples), rates)
    assert frames.tolist() == [int(length > 0) for length in num_samples]
    cut = FramePolicy(num_samples=250, sampling_rate=500)
    assert cut.num_frames(np.array(num_samples), rates).tolist() == [
        count(cut, length, 500.0) for length in num_samples
    ]


@pytest.mark.parametrize(
    ("num_samples", "sampling_rate", "segments", "frames"),
    [(5000, 500.0, 1, 2), (5000, 500.0, 2, 1), (4999, 500.0, 2, 0), (1000, 100.0, 1, 2), (9000, 300.0, 2, 3)],
)
def test_numbers_of_frames_computed_by_hand(num_samples: int, sampling_rate: float, segments: int, frames: int) -> None:
    assert (
        count(FramePolicy(num_samples=2500, num_segments=segments, sampling_rate=500), num_samples, sampling_rate)
        == frames
    )


@pytest.mark.parametrize(
    ("policy", "sampling_rate", "window"),
    [
        (FramePolicy(num_samples=2500, sampling_rate=500), 500, 2500),
        (FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500), 500, 5000),
        (FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500), 300, 3000),
        (FramePolicy(num_samples=2500, num_source_samples=256), 200, 256),
        (FramePolicy(num_samples=2500, num_source_samples="recording"), 500, None),
    ],
)
def test_the_window_length_is_the_number_of_source_samples_of_a_frame(
    policy: FramePolicy, sampling_rate: float, window: int
) -> None:
    assert policy.window_length(sampling_rate) == window


@given(VALUES)
def test_segments_are_adjacent_and_unchanged_without_normalisation(values: npt.NDArray[np.float32]) -> None:
    frames = FramePolicy(num_samples=8, num_segments=3, num_source_samples=24).shape_windows(values[:, None])[:, :, 0]
    assert frames.shape == (3, 3, 8)
    for row in range(3):
        assert [value for segment in frames[row].tolist() for value in segment] == values[row].tolist()


@given(VALUES)
def test_minmax_scales_each_segment_to_0_and_1(values: npt.NDArray[np.float32]) -> None:
    """Compare with a loop in double precision. A constant segment becomes 0."""
    policy = FramePolicy(num_samples=8, num_segments=3, num_source_samples=24, normalization="minmax")
    frames = policy.shape_windows(values[:, None])[:, :, 0]
    for row in range(3):
        for segment in range(3):
            piece = [float(value) for value in values[row, 8 * segment : 8 * segment + 8]]
            low, span = min(piece), max(piece) - min(piece)
            expected = [(value - low) / span if span > 0 else 0.0 for value in piece]
            np.testing.assert_allclose(frames[row, segment], expected, atol=1e-5)
            assert frames[row, segment].min() == 0
            assert frames[row, segment].max() == (1 if span > 0 else 0)


def test_typical_normalisation_does_not_depend_on_gain_and_offset() -> None:
    """Segments have mean 0 and standard deviation 0.15. A constant segment becomes 0."""
    steps = np.random.default_rng(0).normal(size=(3, 1, 16)).astype(np.float32)
    policy = FramePolicy(num_samples=8, num_segments=2, num_source_samples=16, normalization="typical")
    frames = policy.shape_windows(steps)
    for piece in frames.reshape(-1, 8).tolist():
        assert statistics.fmean(piece) == pytest.approx(0, abs=1e-6)
        assert statistics.pstdev(piece) == pytest.approx(0.15, rel=1e-5)
    np.testing.assert_allclose(policy.shape_windows(steps * 300 + 1000), frames, atol=1e-4)
    assert not policy.shape_windows(np.full((1, 1, 16), 7, np.float32)).any()


def test_a_window_of_another_length_is_resampled_to_the_frame() -> None:
    window = np.sin(2 * np.pi * 4 * np.arange(256) / 256).astype(np.float32)
    frame = FramePolicy(num_samples=2500, num_source_samples=256).shape_windows(window[None, None])
    assert frame.shape == (1, 1, 1, 2500)
    np.testing.assert_allclose(frame[0, 0, 0], np.sin(2 * np.pi * 4 * np.arange(2500) / 2500), atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_samples": 2500}, "Set exactly one of"),
        ({"num_samples": 2500, "sampling_rate": 500, "num_source_samples": 2500}, "Set exactly one of"),
        ({"num_samples": 0, "sampling_rate": 500}, "num_samples"),
        ({"num_samples": 2500, "sampling_rate": -1}, "sampling_rate"),
        ({"num_samples": 2500, "sampling_rate": 500, "num_segments": 0}, "num_segments"),
        ({"num_samples": 2500, "sampling_rate": 500, "normalization": "zscore"}, "normalization"),
        ({"num_samples": 2500, "sampling_rate": 500, "label_at": "end"}, "label_at"),
        ({"num_samples": 2500, "num_source_samples": "all"}, "num_source_samples"),
        ({"num_samples": 2500, "sampling_rate": 500, "overlap": 1.0}, "overlap"),
        ({"num_samples": 2500, "num_source_samples": "recording", "overlap": 0.5}, "overlap needs several frames"),
        ({"num_samples": 2500, "sampling_rate": 500, "sample": 1}, "Extra inputs"),
    ],
)
def test_invalid_policies_are_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FramePolicy(**values)


def test_a_policy_is_frozen_and_serialises_to_json() -> None:
    policy = FramePolicy(
        num_samples=2500, num_source_samples="recording", leads=("II",), excluded_leads=(("r1", "V2"),)
    )
    assert FramePolicy.model_validate_json(policy.model_dump_json()) == policy
    with pytest.raises(ValidationError, match="frozen"):
        policy.num_samples = 1
