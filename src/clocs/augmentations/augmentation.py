"""Base class and registry of augmentations.

The options of an augmentation are its constructor's keyword arguments, stored as attributes of the same names. Another
package adds one by an entry point of the group ``clocs.augmentations``, a script or notebook by
``@augmentations.register("name")``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.core.options import options_of
from clocs.core.registry import Registry

Probability = Annotated[float, Field(ge=0, le=1)]


class Augmentation(ABC):
    """Base class of augmentations. Each frame is augmented with the same probability.

    A subclass implements :meth:`apply`. Its constructor stores each option as an attribute of the same name, then calls
    :meth:`check_options`. Draw time, sign and scale once a frame, for all its leads; draw noise for each lead. All
    randomness comes from the generator. The number of draws depends on shapes and options, never on values.

    Args:
        probability: Probability that a frame is augmented. Other frames stay unchanged to the bit.

    Example:
        >>> class Offset(Augmentation):
        ...     def __init__(self, size: float = 0.1, probability: float = 1.0) -> None:
        ...         super().__init__(probability)
        ...         self.size = size
        ...         self.check_options()
        ...
        ...     def apply(self, signals, generator):
        ...         return signals + self.size
        >>> Offset(size=0.5)(torch.zeros(1, 1, 3))
        tensor([[[0.5000, 0.5000, 0.5000]]])
    """

    drops_leads: bool = False
    """True if leads may become zero."""

    def __init__(self, probability: Probability = 1.0) -> None:
        self.probability = probability

    @property
    def needs_millivolt(self) -> bool:
        """Return whether an option is in millivolt, so that signals without a unit must be rejected."""
        return False

    @abstractmethod
    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Augment every frame.

        Args:
            signals: (N, C, S) floats, not empty. They must not be changed.
            generator: Source of all randomness.

        Returns:
            A new tensor (N, C, S) of the same type.
        """

    def __call__(self, signals: Tensor, generator: Generator | None = None) -> Tensor:
        """Augment frames.

        Args:
            signals: (N, C, S) floats: N frames of C leads and S samples.
            generator: Source of all randomness; None for torch's default generator.

        Returns:
            A new tensor (N, C, S) of the same type.
        """
        if signals.ndim != 3 or not signals.is_floating_point():
            raise ValueError(
                f"{type(self).__name__}: expected floats (N, C, S), got {signals.dtype} {tuple(signals.shape)}"
            )
        if not signals.numel():
            return signals.clone()
        return self.apply_randomly(signals, torch.default_generator if generator is None else generator)

    def apply_randomly(self, signals: Tensor, generator: Generator) -> Tensor:
        """Augment each frame with the configured probability.

        Args:
            signals: (N, C, S) floats, not empty.
            generator: Source of all randomness.

        Returns:
            A new tensor (N, C, S) of the same type.
        """
        if self.probability == 1:
            return self.apply(signals, generator)
        chosen = uniform(signals, (len(signals), 1, 1), generator) < self.probability
        return torch.where(chosen, self.apply(signals, generator), signals)

    def check_options(self) -> None:
        """Check the attributes against the constructor's annotations.

        Raises:
            ConfigError: An option is invalid.
        """
        options_of(self)

    def __eq__(self, other: object) -> bool:
        """Return whether the other object has the same class and the same options."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Return a hash of class and options."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return the constructor call with all options."""
        options = ", ".join(f"{name}={value!r}" for name, value in options_of(self).items())
        return f"{type(self).__name__}({options})"


AUGMENTATIONS: Registry[type[Augmentation]] = Registry("augmentation")
"""All augmentations by name."""
register = AUGMENTATIONS.register


def uniform(signals: Tensor, size: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw uniform numbers in [0, 1) as float64, so that the draws do not depend on the type of the signals.

    Args:
        signals: Tensor on the device that the result should have.
        size: Shape of the result.
        generator: Source of the draws.
    """
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(signals.device)
