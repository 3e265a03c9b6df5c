"""Inputs of recordings against windows of the whole signal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.evaluation.benchmark.recording_features import frame_embeddings
from clocs.evaluation.benchmark.recording_inputs import FrameInputs, TokenInputs
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store
from tests.evaluation.benchmark.conftest import Moments

LEADS = ("I", "II", "V1")


def whole(store: Store, sampling_rate: float) -> Floats:
    """Return whole recordings, (recordings, leads, samples)."""
    policy = FramePolicy(num_samples=round(10 * sampling_rate), sampling_rate=sampling_rate, leads=LEADS)
    frames = Frames(store, policy, all_leads=True)
    order = np.argsort(frames.recording_indices(np.arange(len(frames))))
    return frames.views(order)[:, 0]


@pytest.mark.parametrize("sampling_rate", [500, 250])
def test_a_training_crop_begins_at_any_sample(store: Store, tmp_path: Path, sampling_rate: float) -> None:
    inputs = FrameInputs(Moments(all_leads=True, leads=LEADS, sampling_rate=sampling_rate), store, tmp_path)
    records, signals = np.arange(20), whole(store, sampling_rate)
    crops, masks = inputs.sample(records, np.random.default_rng(0))
    assert crops.shape == (20, 3, 1000)
    assert masks.all()
    begins = []
    for signal, crop in zip(signals, crops, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(signal, 1000, axis=1).swapaxes(0, 1)
        difference = np.abs(windows[:, :, ::50] - crop[:, ::50]).max((1, 2))
        begins.append(int(difference.argmin()))
        np.testing.assert_allclose(windows[begins[-1]], crop, atol=1e-5)
    assert any(begin % 500 for begin in begins), "crops between the frames of the test"
    assert bool(list(tmp_path.glob("*.npy"))) == (sampling_rate != 500), "only resampled frames are cached"


def test_all_frames_overlap_by_half_and_a_limit_spaces_them_evenly(store: Store, tmp_path: Path) -> None:
    inputs = FrameInputs(Moments(all_leads=True, leads=LEADS), store, tmp_path)
    signals = whole(store, 500)
    frames, _, owner = inputs.read_all(np.array([3, 1]))
    assert owner.tolist() == [0] * 9 + [1] * 9
    np.testing.assert_array_equal(frames[10], signals[1, :, 500:1500])
    few, _, owner = inputs.read_all(np.array([3, 1]), limit=3)
    assert owner.tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(few[:3], frames[[1, 4, 7]])


def test_tokens_are_standardised_embeddings_of_leads_and_frames(store: Store, tmp_path: Path) -> None:
    embedder, train = Moments(), np.arange(20) < 12
    inputs = TokenInputs(embedder, store, train, tmp_path)
    tokens, masks, owner = inputs.read_all(np.array([5, 2]))
    assert tokens.shape == (2, 9 * 12, 2)
    assert masks.all()
    assert owner.tolist() == [0, 1]
    found = frame_embeddings(embedder, store)
    seen = found.values[train[found.record]]
    expected = (found.values[found.record == 2] - seen.mean(0)) / seen.std(0)
    np.testing.assert_allclose(tokens[1], expected.reshape(108, 2), rtol=1e-3, atol=1e-3)
