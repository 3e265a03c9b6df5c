"""Augmentations that add noise or wander, drawn for each lead."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability, uniform
from clocs.core.errors import ConfigError

Size = Annotated[float, Field(ge=0)]


@AUGMENTATIONS.register("gaussian_noise")
class GaussianNoise(Augmentation):
    """Add white noise. The paper's sigma on Chapman is 10 microvolt.

    Args:
        sigma: Standard deviation in mV or, with ``relative``, as a fraction of each lead's standard deviation.
        relative: Whether ``sigma`` is relative, for signals without a unit.
        probability: Probability that a frame is augmented.

    Example:
        >>> import torch
        >>> GaussianNoise(sigma=0.02)(torch.zeros(8, 12, 500)).shape
        torch.Size([8, 12, 500])
    """

    def __init__(self, sigma: Size = 0.01, relative: bool = False, probability: Probability = 1.0) -> None:
        super().__init__(probability)
        self.sigma, self.relative = sigma, relative
        self.check_options()

    @property
    def needs_millivolt(self) -> bool:
        """Return whether ``sigma`` is in mV."""
        return not self.relative

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Draw noise for every sample."""
        noise = torch.randn(signals.shape, generator=generator, device=generator.device, dtype=signals.dtype)
        return _add(signals, noise.to(signals.device), self.sigma, self.relative)


@AUGMENTATIONS.register("baseline_wander")
class BaselineWander(Augmentation):
    """Add a slow drift, as caused by breathing and loose electrodes: a few sinusoids of random phase.

    Frequencies are in cycles per frame, because an augmentation does not know the sampling rate. In frames of 5 s, the
    defaults are 0.05 to 0.5 Hz. For other frames, multiply Hz by the frame's seconds.

    Args:
        amplitude: Largest possible drift, in mV or, with ``relative``, in standard deviations of each lead.
        relative: Whether ``amplitude`` is relative.
        num_waves: Maximum number of waves. The number of waves of a lead is drawn uniformly from 1 to this maximum. The
            waves share the amplitude equally.
        min_frequency: Lowest frequency, in cycles per frame.
        max_frequency: Highest frequency. The frequency of a wave is drawn uniformly between both.
        probability: Probability that a frame is augmented.

    Example:
        >>> import torch
        >>> bool(BaselineWander(amplitude=0.1)(torch.zeros(8, 12, 500)).abs().max() <= 0.1)
        True
    """

    def __init__(
        self,
        amplitude: Size = 0.1,
        relative: bool = False,
        num_waves: Annotated[int, Field(ge=1)] = 3,
        min_frequency: Size = 0.25,
        max_frequency: Size = 2.5,
        probability: Probability = 1.0,
    ) -> None:
        super().__init__(probability)
        self.amplitude, self.relative = amplitude, relative
        self.num_waves, self.min_frequency, self.max_frequency = num_waves, min_frequency, max_frequency
        self.check_options()
        if max_frequency < min_frequency:
            raise ConfigError(
                f"BaselineWander: max_frequency={max_frequency:g} must be at least min_frequency={min_frequency:g}"
            )

    @property
    def needs_millivolt(self) -> bool:
        """Return whether ``amplitude`` is in mV."""
        return not self.relative

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Draw the waves of each lead."""
        rows, num_samples = signals.shape[0] * signals.shape[1], signals.shape[-1]
        count = 1 + (self.num_waves * uniform(signals, (rows, 1), generator)).floor()
        cycles = self.min_frequency + (self.max_frequency - self.min_frequency) * uniform(
            signals, (rows, self.num_waves), generator
        )
        phases = uniform(signals, (rows, self.num_waves), generator)
        time = torch.arange(num_samples, dtype=torch.float64, device=signals.device) / num_samples
        angles = 2 * torch.pi * torch.addcmul(phases[:, :, None], cycles[:, :, None], time)
        shares = (torch.arange(self.num_waves, device=signals.device) < count) / count
        drift = torch.einsum("nw,nws->ns", shares.to(signals.dtype), angles.to(signals.dtype).sin_())
        return _add(signals, drift.view(signals.shape), self.amplitude, self.relative)


def _add(signals: Tensor, noise: Tensor, size: float, relative: bool) -> Tensor:
    """Add noise (N, C, S) times ``size``, which is in mV or in standard deviations of each lead."""
    if relative:
        noise = noise * signals.std(dim=-1, correction=0, keepdim=True)
    return signals.add(noise, alpha=size)
