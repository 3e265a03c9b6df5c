"""One vector per recording, compared with a literal loop."""

from __future__ import annotations

import numpy as np
import pytest

from clocs.core.errors import SignalError
from clocs.inference.preparation import EncoderInput, PreparedFrames
from clocs.signals.framing import FramePolicy
from clocs.similarity.archive.recording_vectors import pool_recording


def rows(leads: tuple[str, ...], frames: int, joint: int = 0) -> PreparedFrames:
    """Rows of single leads, after those of all leads at once; their signals do not matter here."""
    lead = ("all",) * joint + leads * frames
    policy = FramePolicy(num_samples=1, sampling_rate=500)
    return PreparedFrames(
        windows=np.zeros((1, len(leads), 1), np.float32),
        frame=np.zeros(len(lead), np.int64),
        lead_mask=np.ones((len(lead), 1), np.bool_),
        lead=lead,
        leads=leads,
        start=np.zeros(len(lead)),
        notes=(),
        expected=EncoderInput(
            unit="mV",
            sampling_rate=500,
            num_samples=1,
            leads=leads,
            normalization=policy.normalization,
            policy=policy,
        ),
    )


def test_as_a_literal_loop() -> None:
    random = np.random.default_rng(0)
    frames, leads, wanted = 3, ("V2", "II"), ("II", "aVL", "V2")
    values = (random.normal(size=(frames * 2, 5)) * random.uniform(0.1, 50, (frames * 2, 1))).astype(np.float32)
    made = pool_recording(values, rows(leads, frames), wanted)
    units = [[float(x) / float(np.sqrt(sum(y * y for y in row))) for x in row] for row in values.astype(float)]
    total = [sum(row[place] for row in units) for place in range(5)]
    length = np.sqrt(sum(x * x for x in total))
    np.testing.assert_allclose(made.vector, [x / length for x in total], rtol=1e-5)
    second = [sum(units[row][place] for row in (1, 3, 5)) for place in range(5)]
    np.testing.assert_allclose(made.leads[0], np.array(second) / np.linalg.norm(second), rtol=1e-5)
    assert made.present.tolist() == [True, False, True]
    assert not made.leads[1].any()
    assert made.frames == frames


def test_embedding_lengths_do_not_matter() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=(8, 5)).astype(np.float32)
    longer = values * random.uniform(0.01, 100, (8, 1)).astype(np.float32)
    one, other = (pool_recording(some, rows(("II", "V2"), 4), ("II", "V2")) for some in (values, longer))
    np.testing.assert_allclose(one.vector, other.vector, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(one.vector), 1, atol=1e-6)


def test_a_frame_of_zeros_does_not_count() -> None:
    values = np.array([[3, 4], [0, 0]], np.float32)
    made = pool_recording(values, rows(("II", "V2"), 1), ("II", "V2"))
    np.testing.assert_allclose(made.vector, [0.6, 0.8], atol=1e-6)
    assert made.present.tolist() == [True, False]


@pytest.mark.parametrize("values", [np.zeros((2, 3)), np.full((2, 3), np.nan), np.full((2, 3), np.inf)])
def test_zero_vectors_are_rejected(values: np.ndarray) -> None:
    with pytest.raises(SignalError):
        pool_recording(values.astype(np.float32), rows(("II", "V2"), 1), ("II", "V2"))


def test_frames_of_all_leads_make_the_whole_and_single_ones_make_the_leads() -> None:
    values = np.array([[1, 0], [0, 1], [3, 4], [0, 2], [3, 4], [0, 2]], np.float32)
    made = pool_recording(values, rows(("II", "V2"), 2, joint=2), ("V2", "II"))
    np.testing.assert_allclose(made.vector, [0.5**0.5, 0.5**0.5], atol=1e-6)
    np.testing.assert_allclose(made.leads, np.array([[0.0, 1.0], [0.6, 0.8]]), atol=1e-6)
    assert (made.frames, made.num_leads) == (2, 2)
    alone = pool_recording(values[:2], rows(("II", "V2"), 0, joint=2), ())
    np.testing.assert_array_equal(alone.vector, made.vector)
    assert (alone.leads.shape, alone.frames, alone.num_leads) == ((0, 2), 2, 2)
