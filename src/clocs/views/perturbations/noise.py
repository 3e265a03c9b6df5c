"""Perturbations that add something to a view."""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor

from clocs.views.perturbations.perturbation import Perturbation, uniform


class Gaussian(Perturbation):
    """White noise added: the paper's, whose sigma is 10 microvolt on Chapman."""

    name: Literal["gaussian"] = "gaussian"
    sigma: float = Field(default=0.01, ge=0)
    """mV, or with ``relative`` a fraction of each row's standard deviation, for signals without a unit."""
    relative: bool = False

    @property
    def needs_millivolt(self) -> bool:
        return not self.relative

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        noise = torch.randn(signals.shape, generator=generator, device=generator.device, dtype=signals.dtype)
        return _add(signals, noise.to(signals.device), self.sigma, self.relative)


class BaselineWander(Perturbation):
    """A slow drift added, as breathing and loose electrodes make it: a few sinusoids of random phase.

    Frequencies are in cycles a frame, because a perturbation is told no sampling rate. Like all our defaults they
    are made for frames of 5 s, where they mean 0.05 to 0.5 Hz; for others, multiply Hz by the frame's seconds.
    """

    name: Literal["baseline_wander"] = "baseline_wander"
    amplitude: float = Field(default=0.1, ge=0)
    """mV, or with ``relative`` in standard deviations of each row: what all waves can reach together."""
    relative: bool = False
    waves: int = Field(default=3, ge=1)
    """At most: a row has 1 to so many, each number as likely, and they share the amplitude evenly."""
    slowest: float = Field(default=0.25, ge=0)
    fastest: float = Field(default=2.5, ge=0)
    """Cycles a frame, drawn evenly between the two for each wave."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.fastest < self.slowest:
            raise ValueError(f"fastest must be at least slowest, {self.slowest:g}")
        return self

    @property
    def needs_millivolt(self) -> bool:
        return not self.relative

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        count = 1 + (self.waves * uniform(signals, 1, generator)).floor()
        cycles = self.slowest + (self.fastest - self.slowest) * uniform(signals, self.waves, generator)
        phases = uniform(signals, self.waves, generator)
        time = torch.arange(signals.shape[-1], dtype=torch.float64, device=signals.device) / signals.shape[-1]
        angles = 2 * torch.pi * torch.addcmul(phases[:, :, None], cycles[:, :, None], time)
        shares = (torch.arange(self.waves, device=signals.device) < count) / count
        drift = torch.einsum("nw,nws->ns", shares.to(signals.dtype), angles.to(signals.dtype).sin_())
        return _add(signals, drift, self.amplitude, self.relative)


def _add(signals: Tensor, noise: Tensor, size: float, relative: bool) -> Tensor:
    """Noise (N, S) times ``size``, which is in mV or in standard deviations of each row."""
    if relative:
        noise = noise * signals.std(dim=-1, correction=0, keepdim=True)
    return signals.add(noise, alpha=size)
