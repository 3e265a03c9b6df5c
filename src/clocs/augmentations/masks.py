"""Augmentations that mask a part of time or of the frequencies. All leads of a frame have the same masks."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability
from clocs.core.errors import ConfigError

MaskFraction = Annotated[float, Field(ge=0, le=1)]
NumMasks = Annotated[int, Field(ge=1)]
Window = Annotated[int, Field(ge=4, multiple_of=2)]
Hop = Annotated[int, Field(ge=1)]


class Masking(Augmentation):
    """Base class of masks over bins of any kind.

    Args:
        mask_fraction: Fraction of the bins in one mask, rounded to whole bins.
        num_masks: Number of masks, each placed independently. They may overlap.
        probability: Probability that a frame is masked.
    """

    def __init__(
        self, mask_fraction: MaskFraction = 0.2, num_masks: NumMasks = 1, probability: Probability = 1.0
    ) -> None:
        super().__init__(probability)
        self.mask_fraction, self.num_masks = mask_fraction, num_masks

    def kept(self, signals: Tensor, bins: int, generator: Generator) -> Tensor:
        """Draw the masks of each frame: (N, bins), false where bins are masked."""
        masked, size = round(self.mask_fraction * bins), (len(signals), self.num_masks, 1)
        start = torch.randint(bins - masked + 1, size, generator=generator, device=generator.device)
        offset = torch.arange(bins, device=signals.device) - start.to(signals.device)
        return ((offset < 0) | (offset >= masked)).all(dim=1)


@AUGMENTATIONS.register("mask")
class Mask(Masking):
    """Make an interval of time flat, with sharp edges.

    Args:
        mask_fraction: Fraction of the samples in one mask.
        num_masks: Number of masks, each placed independently. They may overlap.
        fill: Value of masked samples: ``mean``, the mean of each lead, which hides the lead's offset; or ``zero``.
        probability: Probability that a frame is masked.

    Example:
        >>> import torch
        >>> int((Mask(mask_fraction=0.2, fill="zero")(torch.ones(1, 1, 500)) == 0).sum())
        100
    """

    def __init__(
        self,
        mask_fraction: MaskFraction = 0.2,
        num_masks: NumMasks = 1,
        fill: Literal["mean", "zero"] = "mean",
        probability: Probability = 1.0,
    ) -> None:
        super().__init__(mask_fraction, num_masks, probability)
        self.fill = fill
        self.check_options()

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Replace the masked samples."""
        flat = signals.mean(dim=-1, keepdim=True) if self.fill == "mean" else signals.new_zeros(())
        return torch.where(self.kept(signals, signals.shape[-1], generator).unsqueeze(1), signals, flat)


class SpectrogramMask(Masking):
    """Base class of SpecAugment on an STFT with a Hann window, centered on every ``hop``-th sample.

    ``mask_fraction`` and ``num_masks`` are the paper's, which states no window. Ours, of 0.5 s at 500 Hz, makes
    129 bins of 2 Hz and 40 of 0.13 s out of 2,500 samples: short enough that a time mask (8 bins) is silent for 0.6 s.

    Args:
        mask_fraction: Fraction of the bins in one mask.
        num_masks: Number of masks, each placed independently. They may overlap.
        window: Samples of the window.
        hop: Samples from one window to the next. At most a quarter window, or the inverse would lose precision
            at the edges.
        probability: Probability that a frame is masked.
    """

    def __init__(
        self,
        mask_fraction: MaskFraction = 0.2,
        num_masks: NumMasks = 1,
        window: Window = 256,
        hop: Hop = 64,
        probability: Probability = 1.0,
    ) -> None:
        super().__init__(mask_fraction, num_masks, probability)
        self.window, self.hop = window, hop
        self.check_options()
        if 4 * hop > window:
            raise ConfigError(
                f"{type(self).__name__}: hop must be at most a quarter of the window, {window // 4}, not {hop}"
            )


@AUGMENTATIONS.register("spec_augment_time")
class SpecAugmentTime(SpectrogramMask):
    """Remove an interval of time with soft edges: the paper's SA_t.

    SpecAugment sets windows of an STFT to zero and inverts it. This multiplies each sample by the fraction of its
    windows that remain. This class computes only that fraction, without Fourier transforms; the result is the same.

    Args:
        mask_fraction: Fraction of the bins in one mask.
        num_masks: Number of masks, each placed independently. They may overlap.
        window: Samples of the window.
        hop: Samples from one window to the next, at most a quarter of the window.
        probability: Probability that a frame is masked.

    Example:
        >>> import torch
        >>> int((SpecAugmentTime()(torch.ones(1, 1, 2500)) == 0).sum()) > 0
        True
    """

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Weigh each sample by the share of its windows that is left."""
        samples = torch.arange(signals.shape[-1], dtype=torch.float64, device=signals.device)
        centres = torch.arange(0, len(samples) + 1, self.hop, device=signals.device)
        phase = (samples - centres[:, None] + self.window // 2) / self.window
        power = torch.where((phase >= 0) & (phase < 1), torch.sin(torch.pi * phase) ** 4, 0)
        gain = self.kept(signals, len(centres), generator).to(torch.float64) @ (power / power.sum(dim=0))
        return signals * gain.to(signals.dtype).unsqueeze(1)


@AUGMENTATIONS.register("spec_augment_frequency")
class SpecAugmentFrequency(SpectrogramMask):
    """Remove a band of frequencies: the paper's SA_f.

    The band starts anywhere up to the Nyquist frequency, as in the paper. At 500 Hz most masks therefore lie above the
    40 Hz where an ECG has its power, and change little.

    Args:
        mask_fraction: Fraction of the bins in one mask.
        num_masks: Number of masks, each placed independently. They may overlap.
        window: Samples of the window, fewer than twice the samples of a frame.
        hop: Samples from one window to the next, at most a quarter of the window.
        probability: Probability that a frame is masked.

    Example:
        >>> import torch
        >>> SpecAugmentFrequency()(torch.randn(2, 12, 2500)).shape
        torch.Size([2, 12, 2500])
    """

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Set bins of the spectrogram to zero."""
        leads, num_samples = signals.shape[1:]
        if self.window >= 2 * num_samples:
            raise ConfigError(
                f"SpecAugmentFrequency: frames of {num_samples} samples need a window below {2 * num_samples}, "
                f"not {self.window}"
            )
        hann = torch.hann_window(self.window, dtype=signals.dtype, device=signals.device)
        rows = signals.flatten(0, 1)
        spectrogram = torch.stft(rows, self.window, self.hop, window=hann, return_complex=True)
        kept = self.kept(signals, spectrogram.shape[1], generator)
        spectrogram *= kept.repeat_interleave(leads, 0)[:, :, None]
        return torch.istft(spectrogram, self.window, self.hop, window=hann, length=num_samples).view(signals.shape)
