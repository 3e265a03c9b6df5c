"""Perturbations of amplitude: each view as a whole, by one factor."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator
from torch import Generator, Tensor

from clocs.views.perturbations.perturbation import Perturbation, uniform


class FlipAmplitude(Perturbation):
    """Upside down, as when electrodes are swapped: the paper's Flip_X, MT-SSL's negation."""

    name: Literal["flip_amplitude"] = "flip_amplitude"
    probability: float = Field(default=0.5, ge=0, le=1)  # likewise

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        return -signals


class Scaling(Perturbation):
    """Each row times one factor, drawn evenly between ``low`` and ``high``.

    The paper gives none. Ours is never 1, so that MT-SSL can tell a scaled frame from its original; a normalisation to
    one size that follows undoes it.
    """

    name: Literal["scaling"] = "scaling"
    low: float = Field(default=0.5, ge=0)
    high: float = 0.9

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"high must be at least low, not {self.high:g} after {self.low:g}")
        return self

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        factor = self.low + (self.high - self.low) * uniform(signals, 1, generator)
        return signals * factor.to(signals.dtype)
