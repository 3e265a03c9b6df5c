"""Perturbations that silence a part: of time, or of the frequencies."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor

from clocs.core.errors import ConfigError
from clocs.views.perturbations.perturbation import Perturbation


class Masking(Perturbation):
    """Options of masks over bins of any kind."""

    width: float = Field(default=0.2, ge=0, le=1)
    """Fraction of the bins in one mask, rounded to whole bins."""
    repeats: int = Field(default=1, ge=1)
    """Masks, each placed by itself; they may overlap."""

    def kept(self, signals: Tensor, bins: int, generator: Generator) -> Tensor:
        """(N, bins): false where a row's bins are masked."""
        masked, size = round(self.width * bins), (len(signals), self.repeats, 1)
        start = torch.randint(bins - masked + 1, size, generator=generator, device=generator.device)
        offset = torch.arange(bins, device=signals.device) - start.to(signals.device)
        return ((offset < 0) | (offset >= masked)).all(dim=1)


class Mask(Masking):
    """A stretch of time made flat, with sharp edges; a bin is a sample."""

    name: Literal["mask"] = "mask"
    fill: Literal["mean", "zero"] = "mean"
    """``mean``: of the row, so that a stretch does not stand out by the signal's offset."""

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        flat = signals.mean(dim=-1, keepdim=True) if self.fill == "mean" else signals.new_zeros(())
        return torch.where(self.kept(signals, signals.shape[-1], generator), signals, flat)


class SpectrogramMask(Masking):
    """Options of SpecAugment on an STFT with a Hann window, centred on every ``hop``-th sample.

    ``width`` and ``repeats`` are the paper's, which states no window. Ours, of 0.5 s at 500 Hz, makes 129 bins
    of 2 Hz and 40 of 0.13 s out of 2,500 samples: short enough that a time mask (8 bins) is silent for 0.6 s.
    """

    window: int = Field(default=256, ge=4, multiple_of=2)
    """Samples."""
    hop: int = Field(default=64, ge=1)
    """Samples; at most a quarter window, or the inverse would lose precision at the edges."""

    @model_validator(mode="after")
    def _overlaps(self) -> Self:
        if 4 * self.hop > self.window:
            raise ValueError(f"hop must be at most a quarter of the window, {self.window // 4}")
        return self


class SpecAugmentTime(SpectrogramMask):
    """A stretch of time silenced, softly at its edges: the paper's SA_t.

    Silencing whole windows of an STFT and inverting it weighs each sample by the share of its windows
    that is left, so that share is all we compute: the same signal, without Fourier transforms.
    """

    name: Literal["spec_augment_time"] = "spec_augment_time"

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        samples = torch.arange(signals.shape[-1], dtype=torch.float64, device=signals.device)
        centres = torch.arange(0, len(samples) + 1, self.hop, device=signals.device)
        phase = (samples - centres[:, None] + self.window // 2) / self.window
        power = torch.where((phase >= 0) & (phase < 1), torch.sin(torch.pi * phase) ** 4, 0)
        gain = self.kept(signals, len(centres), generator).to(torch.float64) @ (power / power.sum(dim=0))
        return signals * gain.to(signals.dtype)


class SpecAugmentFrequency(SpectrogramMask):
    """A band of frequencies silenced: the paper's SA_f.

    The band starts anywhere up to the Nyquist frequency, as the paper has it, so at 500 Hz most masks
    lie above the 40 Hz where an ECG has its power, and change little.
    """

    name: Literal["spec_augment_frequency"] = "spec_augment_frequency"

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        samples = signals.shape[-1]
        if self.window >= 2 * samples:
            raise ConfigError(f"{self.name}: frames of {samples} samples need a window below {2 * samples}")
        hann = torch.hann_window(self.window, dtype=signals.dtype, device=signals.device)
        spectrogram = torch.stft(signals, self.window, self.hop, window=hann, return_complex=True)
        spectrogram *= self.kept(signals, spectrogram.shape[1], generator)[:, :, None]
        return torch.istft(spectrogram, self.window, self.hop, window=hann, length=samples)
