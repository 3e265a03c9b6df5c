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


@pytest.mark.parametrize(("samples", "pieces"), [(2500, 20), (2500, 7), (2503, 20), (5, 9), (10, 1)])
def test_permutation_moves_whole_pieces(samples: int, pieces: int) -> None:
    """Each row, walked through: whole pieces as numpy would cut them, each exactly once."""
    made = Permutation(pieces=pieces)(torch.arange(samples, dtype=torch.float64).repeat(16, 1, 1), seeded())[
        :, 0
    ].numpy()
    edges = [samples * piece // pieces for piece in range(pieces + 1)]
    cuts = {begin: end for begin, end in itertools.pairwise(edges) if end > begin}
    assert max(end - begin for begin, end in cuts.items()) <= math.ceil(samples / pieces)
    orders = set()
    for row in made:
        at, order = 0, []
        while at < samples:
            begin = int(row[at])
            np.testing.assert_array_equal(row[at : at + cuts[begin] - begin], np.arange(begin, cuts[begin]))
            at += cuts[begin] - begin
            order.append(begin)
        assert sorted(order) == sorted(cuts)
        orders.add(tuple(order))
    assert len(orders) >= (14 if pieces > 1 else 1)


def test_permutation_keeps_every_sample_and_favours_no_order() -> None:
    signals = noise(6000, 9, torch.float32)
    made = Permutation(pieces=3)(signals, seeded())
    assert torch.equal(made.sort(dim=-1).values, signals.sort(dim=-1).values)
    first = Permutation(pieces=3)(torch.arange(9.0).repeat(6000, 1, 1), seeded())[:, 0, ::3].numpy()
    _, counts = np.unique(first, axis=0, return_counts=True)
    assert len(counts) == 6
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def literal_map(samples: int, lengths: Array) -> Array:
    """Where new samples are read: pieces of these lengths, drawn out or pressed to fill the row."""
    new = np.concatenate([[0], np.cumsum(lengths)]) / lengths.sum() * (samples - 1)
    return np.interp(np.arange(samples), new, np.linspace(0, samples - 1, len(new)))


def test_time_warping_reads_along_a_map_of_stretched_and_squeezed_pieces() -> None:
    """Every row equals one of the 10 ways to stretch 3 of 5 pieces, and all ways occur."""
    options, signals = TimeWarping(pieces=5, factor=1.5), noise(200, 301)
    read, made = options.positions(signals, seeded()).numpy(), options(signals, seeded())[:, 0].numpy()
    ways = [np.where(np.isin(np.arange(5), chosen), 1.5, 1 / 1.5) for chosen in itertools.combinations(range(5), 3)]
    maps = np.array([literal_map(301, lengths) for lengths in ways])
    match = np.abs(read[:, None] - maps).max(axis=-1) < 1e-9
    assert (match.sum(axis=1) == 1).all()
    assert match.any(axis=0).all()
    for row, where, out in zip(signals[:, 0].numpy(), read, made, strict=True):
        np.testing.assert_allclose(out, np.interp(where, np.arange(301), row), atol=1e-9)


@pytest.mark.parametrize(("pieces", "factor"), [(9, 1.05), (9, 3.0), (1, 2.0), (40, 1.2)])
@pytest.mark.parametrize("samples", [2500, 17, 2])
def test_warped_time_never_turns_back(pieces: int, factor: float, samples: int) -> None:
    read = TimeWarping(pieces=pieces, factor=factor).positions(torch.zeros((64, 1, samples)), seeded())
    assert (read.diff(dim=-1) > 0).all()
    assert read[:, 0].abs().max() < 1e-9
    assert (read[:, -1] - (samples - 1)).abs().max() < 1e-9


def test_time_warping_by_one_is_the_identity() -> None:
    signals = noise(8, 2500)
    np.testing.assert_allclose(TimeWarping(factor=1)(signals, seeded()), signals, rtol=0, atol=1e-9)
