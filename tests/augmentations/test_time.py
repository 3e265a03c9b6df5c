"""Whole pieces move, time is stretched and squeezed; each against a literal version, frame by frame."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
import torch

from clocs.augmentations.time import FlipTime, Permutation, TimeWarping
from tests.augmentations.conftest import noise, seeded

Array = npt.NDArray[np.float64]


def test_the_flip_is_exact() -> None:
    signals = noise(5, 301)
    np.testing.assert_array_equal(FlipTime(probability=1)(signals, seeded()), signals.numpy()[..., ::-1])


@pytest.mark.parametrize(("num_samples", "num_pieces"), [(2500, 20), (2500, 7), (2503, 20), (5, 9), (10, 1)])
def test_permutation_moves_whole_pieces(num_samples: int, num_pieces: int) -> None:
    """Each row, walked through: whole pieces as numpy would cut them, each exactly once."""
    made = Permutation(num_pieces=num_pieces)(
        torch.arange(num_samples, dtype=torch.float64).repeat(16, 1, 1), seeded()
    )[:, 0].numpy()
    edges = [num_samples * piece // num_pieces for piece in range(num_pieces + 1)]
    cuts = {begin: end for begin, end in itertools.pairwise(edges) if end > begin}
    assert max(end - begin for begin, end in cuts.items()) <= math.ceil(num_samples / num_pieces)
    orders = set()
    for row in made:
        at, order = 0, []
        while at < num_samples:
            begin = int(row[at])
            np.testing.assert_array_equal(row[at : at + cuts[begin] - begin], np.arange(begin, cuts[begin]))
            at += cuts[begin] - begin
            order.append(begin)
        assert sorted(order) == sorted(cuts)
        orders.add(tuple(order))
    assert len(orders) >= (14 if num_pieces > 1 else 1)


def test_permutation_keeps_every_sample_and_favours_no_order() -> None:
    signals = noise(6000, 9, torch.float32)
    made = Permutation(num_pieces=3)(signals, seeded())
    assert torch.equal(made.sort(dim=-1).values, signals.sort(dim=-1).values)
    first = Permutation(num_pieces=3)(torch.arange(9.0).repeat(6000, 1, 1), seeded())[:, 0, ::3].numpy()
    _, counts = np.unique(first, axis=0, return_counts=True)
    assert len(counts) == 6
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def literal_map(num_samples: int, lengths: Array) -> Array:
    """Return the positions at which new samples are read, for pieces of these lengths."""
    new = np.concatenate([[0], np.cumsum(lengths)]) / lengths.sum() * (num_samples - 1)
    return np.interp(np.arange(num_samples), new, np.linspace(0, num_samples - 1, len(new)))


def test_time_warping_reads_along_a_map_of_stretched_and_squeezed_pieces() -> None:
    """Every row equals one of the 10 ways to stretch 3 of 5 pieces, and all ways occur."""
    options, signals = TimeWarping(num_pieces=5, factor=1.5), noise(200, 301)
    read, made = options.positions(signals, seeded()).numpy(), options(signals, seeded())[:, 0].numpy()
    ways = [np.where(np.isin(np.arange(5), chosen), 1.5, 1 / 1.5) for chosen in itertools.combinations(range(5), 3)]
    maps = np.array([literal_map(301, lengths) for lengths in ways])
    match = np.abs(read[:, None] - maps).max(axis=-1) < 1e-9
    assert (match.sum(axis=1) == 1).all()
    assert match.any(axis=0).all()
    for row, where, out in zip(signals[:, 0].numpy(), read, made, strict=True):
        np.testing.assert_allclose(out, np.interp(where, np.arange(301), row), atol=1e-9)


@pytest.mark.parametrize(("num_pieces", "factor"), [(9, 1.05), (9, 3.0), (1, 2.0), (40, 1.2)])
@pytest.mark.parametrize("num_samples", [2500, 17, 2])
def test_warped_time_never_turns_back(num_pieces: int, factor: float, num_samples: int) -> None:
    read = TimeWarping(num_pieces=num_pieces, factor=factor).positions(torch.zeros((64, 1, num_samples)), seeded())
    assert (read.diff(dim=-1) > 0).all()
    assert read[:, 0].abs().max() < 1e-9
    assert (read[:, -1] - (num_samples - 1)).abs().max() < 1e-9


def test_time_warping_by_one_is_the_identity() -> None:
    signals = noise(8, 2500)
    np.testing.assert_allclose(TimeWarping(factor=1)(signals, seeded()), signals, rtol=0, atol=1e-9)
