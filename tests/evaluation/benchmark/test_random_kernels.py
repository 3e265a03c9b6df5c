"""MiniRocket equals a literal loop over kernels, dilations and samples."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark.random_kernels import KERNELS, DilatedKernels, MiniRocket, dilations_of, random_kernels
from clocs.evaluation.benchmark.recording_features import recording_features
from clocs.signals.resampling import Floats
from clocs.store.store import Store

SIGNALS = np.random.default_rng(0).normal(size=(6, 3, 120)).cumsum(2).astype(np.float32)


def literal_values(signal: Floats, weight: Floats, dilation: int, padded: bool) -> list[float]:
    """Sum of nine shifted and weighted samples, at each position."""
    length = signal.shape[1]
    margin = 0 if padded else 4 * dilation
    values = []
    for position in range(margin, length - margin):
        at = [position + (tap - 4) * dilation for tap in range(9)]
        values.append(sum(float(signal[:, t] @ weight[:, tap]) for tap, t in enumerate(at) if 0 <= t < length))
    return values


def test_features_equal_a_literal_loop() -> None:
    rocket = MiniRocket(num_features=2 * 84, seed=3).fit(SIGNALS)
    found = rocket.transform(SIGNALS)
    assert found.shape == (6, 168)
    column = 0
    for item in rocket._kernels:
        for weight, biases in zip(item.weight.numpy(), item.bias.numpy(), strict=True):
            for bias in biases:
                for row in (0, 5):
                    values = np.array(literal_values(SIGNALS[row], weight, item.dilation, item.padded))
                    safe = np.abs(values - bias) > 1e-3
                    assert found[row, column] == pytest.approx((values > bias).mean(), abs=(~safe).mean() + 1e-6)
                column += 1
    assert column == 168


def test_features_equal_those_of_aeon_with_its_parameters() -> None:
    """Features of aeon 1.6.0 (``MiniRocket(n_kernels=840, random_state=0)``) for the same signals."""
    golden = np.load(Path(__file__).with_name("aeon_minirocket.npz"))
    dilations, counts = dilations_of(120, 10)
    np.testing.assert_array_equal(dilations, golden["dilations"])
    np.testing.assert_array_equal(counts, golden["counts"])
    leads = iter(golden["channels"].tolist())
    biases, features = iter(golden["biases"].tolist()), golden["features"].T.tolist()
    num_leads = iter(golden["num_channels"].tolist())
    for number, (dilation, count) in enumerate(zip(dilations.tolist(), counts.tolist(), strict=True)):
        for row, kernel in enumerate(KERNELS):
            weight = np.zeros((1, 3, 9), np.float32)
            weight[0, [next(leads) for _ in range(next(num_leads))]] = kernel
            bias = torch.tensor([[next(biases) for _ in range(count)]])
            padded = (number + row) % 2 == 0
            found = DilatedKernels(dilation, padded, torch.from_numpy(weight), bias).proportions(
                torch.from_numpy(SIGNALS)
            )
            expected = np.array([features.pop(0) for _ in range(count)]).T
            np.testing.assert_allclose(found.numpy(), expected, atol=1.01 / (120 - (0 if padded else 8 * dilation)))
    assert not features


def test_kernels_are_all_choices_of_three_large_weights() -> None:
    assert KERNELS.shape == (84, 9)
    assert {tuple(np.flatnonzero(row == 2).tolist()) for row in KERNELS} == {
        tuple(chosen) for chosen in combinations(range(9), 3)
    }
    assert not KERNELS.sum(1).any()


@pytest.mark.parametrize(("length", "features"), [(1000, 119), (500, 119), (100, 10), (9, 119), (1000, 1)])
def test_dilations_share_all_features(length: int, features: int) -> None:
    dilations, counts = dilations_of(length, features)
    assert counts.sum() == features
    assert dilations[0] == 1
    assert (np.diff(dilations) > 0).all()
    assert 8 * dilations[-1] < length
    if (length, features) == (1000, 119):
        assert dilations[-1] == 124


def test_biases_are_quantiles_of_training_values_and_leads_vary() -> None:
    """Each feature is a proportion that varies, and kernels add one to nine leads."""
    random = np.random.default_rng(1)
    signals = random.normal(size=(60, 12, 300)).astype(np.float32)
    rocket = MiniRocket(num_features=10_000).fit(signals[:40])
    found = rocket.transform(signals[40:])
    assert found.shape == (20, 9996)
    assert found.min() >= 0
    assert found.max() <= 1
    assert 0.45 < found.mean() < 0.55
    leads = np.concatenate([(item.weight != 0).any(2).sum(1).numpy() for item in rocket._kernels])
    assert set(leads) == set(range(1, 10))
    assert np.mean(leads == 1) > np.mean(leads == 2) > np.mean(leads == 4)
    assert MiniRocket(seed=1).fit(signals[:9]).identity != MiniRocket(seed=2).fit(signals[:9]).identity


def test_errors() -> None:
    with pytest.raises(ConfigError, match="at least 84"):
        MiniRocket(num_features=83)
    with pytest.raises(ConfigError, match="Call fit first"):
        MiniRocket().transform(SIGNALS)
    with pytest.raises(ConfigError, match="too short"):
        MiniRocket().fit(SIGNALS[:, :, :8])


def test_a_recording_has_the_mean_of_its_frames(store: Store) -> None:
    embedder = random_kernels(store, np.arange(20) < 10, num_features=840, seconds=4)
    assert (embedder.policy.num_samples, embedder.policy.sampling_rate) == (400, 100)
    found = recording_features(embedder, store)["embedding"]
    assert found.values.shape == (20, 840)
    assert set(found.num_frames) == {4}
    assert 0.3 < found.values.mean() < 0.7
