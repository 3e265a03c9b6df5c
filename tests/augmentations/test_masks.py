"""Masks against the paper's appendix B and a literal version, row by row."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
import torch

from clocs.augmentations.masks import Mask, SpecAugmentFrequency, SpecAugmentTime, SpectrogramMask
from clocs.core.errors import ConfigError
from tests.augmentations.conftest import named, noise, seeded

Array = npt.NDArray[np.float64]


def literal_masked(row: Array, options: SpectrogramMask, axis: int, start: int) -> Array:
    """Compute appendix B for one row: transform, zero a band, transform back and overlap-add."""
    window, hop = options.window, options.hop
    hann = np.sin(np.pi * np.arange(window) / window) ** 2
    padded = np.pad(row, window // 2, mode="reflect")
    begins = range(0, len(padded) - window + 1, hop)
    spectrogram = np.array([np.fft.rfft(hann * padded[at : at + window]) for at in begins]).T
    width = round(options.mask_fraction * spectrogram.shape[axis])
    band = (slice(None), slice(start, start + width)) if axis == 1 else (slice(start, start + width), slice(None))
    spectrogram[band] = 0 + 0j
    total, weight = np.zeros_like(padded), np.zeros_like(padded)
    for at, column in zip(begins, spectrogram.T, strict=True):
        total[at : at + window] += hann * np.fft.irfft(column, window)
        weight[at : at + window] += hann**2
    inside = slice(window // 2, window // 2 + len(row))
    return total[inside] / weight[inside]


@pytest.mark.parametrize(
    ("options", "axis", "num_samples", "bins"),
    [
        (SpecAugmentTime(window=64, hop=16), 1, 640, 41),
        (SpecAugmentTime(window=64, hop=16, mask_fraction=0.5), 1, 607, 38),
        (SpecAugmentTime(window=64, hop=9), 1, 331, 37),
        (SpecAugmentFrequency(window=64, hop=16), 0, 640, 33),
        (SpecAugmentFrequency(window=64, hop=16, mask_fraction=0.5), 0, 607, 33),
        (SpecAugmentFrequency(window=62, hop=9), 0, 331, 32),
    ],
)
def test_each_row_has_one_of_the_paper_s_masks(
    options: SpectrogramMask, axis: int, num_samples: int, bins: int
) -> None:
    """Every row equals the literal version with exactly one start of 0..N - N_m, and starts differ."""
    signals = noise(12, num_samples)
    made = options(signals, seeded())[:, 0].numpy()
    starts = bins - round(options.mask_fraction * bins) + 1
    found = []
    for row, out in zip(signals[:, 0].numpy(), made, strict=True):
        near = [s for s in range(starts) if np.abs(literal_masked(row, options, axis, s) - out).max() < 1e-10]
        assert len(near) == 1
        found += near
    assert len(set(found)) > 4


@pytest.mark.parametrize(("options", "axis"), [(SpecAugmentTime(), 1), (SpecAugmentFrequency(), 0)])
def test_default_masks_on_a_frame(options: SpectrogramMask, axis: int) -> None:
    """2,500 samples: 8 of 40 bins in time, 26 of 129 in frequency, the start taken from the mask itself."""
    signals = noise(8, 2500)
    bins = (129, 40)[axis]
    kept = options.kept(signals, bins, seeded())
    assert ((~kept).sum(dim=-1) == (26, 8)[axis]).all()
    made = options(signals, seeded())[:, 0].numpy()
    for row, out, mask in zip(signals[:, 0].numpy(), made, kept.numpy(), strict=True):
        np.testing.assert_allclose(out, literal_masked(row, options, axis, int(np.argmin(mask))), atol=1e-10)


def test_starts_are_even_over_all_that_fit() -> None:
    """10,400 rows over 104 starts: chi-square, and both ends are reached."""
    kept = SpecAugmentFrequency().kept(torch.zeros((10_400, 1)), 129, seeded())
    counts = np.bincount((~kept).int().argmax(dim=-1).numpy(), minlength=104)
    assert len(counts) == 104
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_masks_are_placed_independently() -> None:
    kept = SpecAugmentTime(num_masks=3, mask_fraction=0.1).kept(torch.zeros((500, 1)), 40, seeded())
    masked = (~kept).sum(dim=-1)
    assert int(masked.min()) >= 4
    assert int(masked.max()) == 12
    assert len(torch.unique(kept, dim=0)) > 400


@pytest.mark.parametrize("name", ["spec_augment_time", "spec_augment_frequency"])
def test_nothing_masked_gives_the_signal_back_and_everything_silence(name: str) -> None:
    for num_samples in (2500, 2499, 257):
        signals = noise(4, num_samples, torch.float32)
        np.testing.assert_allclose(named(name, mask_fraction=0)(signals, seeded()), signals, rtol=0, atol=1e-5)
        assert named(name, mask_fraction=1)(signals, seeded()).abs().max() == 0


def test_a_time_mask_silences_and_leaves_the_rest() -> None:
    """8 windows of 256 samples, 64 apart, that begin with a zero: 703 samples touched, 321 with no other window."""
    made = SpecAugmentTime()(torch.ones((200, 1, 2500), dtype=torch.float64), seeded())[:, 0]
    silent, touched = (made == 0).sum(dim=-1), (made < 1 - 1e-12).sum(dim=-1)
    inner = (made[:, 0] > 1 - 1e-12) & (made[:, -1] > 1 - 1e-12)
    assert int(inner.sum()) > 100
    assert set(silent[inner].tolist()) == {321}
    assert set(touched[inner].tolist()) == {703}


def test_a_frequency_mask_removes_a_tone_inside_it_and_no_other() -> None:
    """A Hann window spreads a tone over three bins; away from the edges, which are reflected."""
    options, tone = SpecAugmentFrequency(), 40
    signals = torch.cos(2 * torch.pi * tone / 256 * torch.arange(2500, dtype=torch.float64)).repeat(300, 1, 1)
    kept = options.kept(signals, 129, seeded())[:, tone - 2 : tone + 3]
    inside = options(signals, seeded())[:, 0, 256:-256]
    gone, left = ~kept.any(dim=-1), kept.all(dim=-1)
    assert gone.any()
    assert left.any()
    assert inside[gone].abs().max() < 1e-10
    np.testing.assert_allclose(inside[left], signals[left, 0, 256:-256], rtol=0, atol=1e-10)


def test_a_window_too_long_for_the_frames_is_refused_with_what_fits() -> None:
    with pytest.raises(ConfigError, match="frames of 100 samples need a window below 200"):
        SpecAugmentFrequency()(noise(2, 100), seeded())


@pytest.mark.parametrize("fill", ["mean", "zero"])
def test_a_mask_flattens_one_stretch_of_a_fifth(fill: Literal["mean", "zero"]) -> None:
    """Every row equals the literal version with exactly one of the starts that fit; 48 of 241 samples."""
    signals = noise(40, 241)
    made = Mask(fill=fill)(signals, seeded())[:, 0].numpy()
    found = []
    for row, out in zip(signals[:, 0].numpy(), made, strict=True):
        ways = np.tile(row, (241 - 48 + 1, 1))
        for start, way in enumerate(ways):
            way[start : start + 48] = row.mean() if fill == "mean" else 0
        near = np.flatnonzero(np.abs(ways - out).max(axis=1) < 1e-12)
        assert len(near) == 1
        found += near.tolist()
    assert len(set(found)) > 20


def test_a_mask_may_lie_anywhere_and_cover_nothing_or_all() -> None:
    """5,000 rows over the 9 places of 2 of 10 samples, both ends among them: chi-square."""
    signals = torch.ones((5000, 1, 10), dtype=torch.float64)
    counts = np.bincount(Mask(fill="zero")(signals, seeded()).argmin(dim=-1)[:, 0].numpy(), minlength=9)
    assert len(counts) == 9
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    some = noise(3, 100)
    assert torch.equal(Mask(mask_fraction=0)(some, seeded()), some)
    assert torch.equal(Mask(mask_fraction=1)(some, seeded()), some.mean(dim=-1, keepdim=True).expand_as(some))
