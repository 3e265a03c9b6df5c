"""Augmentations of amplitude: one factor for all leads of a frame."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability, uniform
from clocs.core.errors import ConfigError


@AUGMENTATIONS.register("flip_amplitude")
class FlipAmplitude(Augmentation):
    """Turn frames upside down, as exchanged electrodes do: the paper's Flip_X, MT-SSL's negation.

    Args:
        probability: Probability that a frame is flipped. At 1, both views of a frame would be equal.

    Example:
        >>> import torch
        >>> FlipAmplitude(probability=1)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[-1., -2.]]])
    """

    def __init__(self, probability: Probability = 0.5) -> None:
        super().__init__(probability)
        self.check_options()

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Change the sign of every sample."""
        return -signals


@AUGMENTATIONS.register("scaling")
class Scaling(Augmentation):
    """Multiply each frame by one factor, drawn uniformly between ``low`` and ``high``.

    The paper gives no factor. The default is never 1, so that MT-SSL can distinguish a scaled frame from its original.
    A normalization to one size that follows undoes the scaling.

    Args:
        low: Smallest factor.
        high: Largest factor.
        probability: Probability that a frame is scaled.

    Example:
        >>> import torch
        >>> Scaling(low=2, high=2)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[2., 4.]]])
    """

    def __init__(
        self, low: Annotated[float, Field(ge=0)] = 0.5, high: float = 0.9, probability: Probability = 1.0
    ) -> None:
        super().__init__(probability)
        self.low, self.high = low, high
        self.check_options()
        if high < low:
            raise ConfigError(f"Scaling: high must be at least low, {low:g}, not {high:g}")

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Multiply by a factor for each frame."""
        factor = self.low + (self.high - self.low) * uniform(signals, (len(signals), 1, 1), generator)
        return signals * factor.to(signals.dtype)
