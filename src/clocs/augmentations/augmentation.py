"""The base class of augmentations and their registry.

Options of an augmentation are its constructor's keyword arguments, kept as attributes of the same names. Another
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
    """Base class: a random change of frames, each augmented by chance.

    A subclass implements :meth:`apply`. Its constructor stores each option as an attribute of the same name, then calls
    ``check_options``. Time, sign and scale are drawn once a frame, for all its leads; noise is drawn for each
    lead. All randomness comes from the generator, and the number of draws depends on shapes and options, never
    on values.

    Args:
        probability: Probability that a frame is augmented. Other frames stay unchanged to the bit.
    """

    drops_leads: bool = False
    """Whether leads may become zero."""

    def __init__(self, probability: Probability = 1.0) -> None:
        self.probability = probability

    @property
    def needs_millivolt(self) -> bool:
        """Whether an option is in millivolt, so that signals without a unit must be rejected."""
        return False

    @abstractmethod
    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Augment every frame.

        Args:
            signals: (N, C, S) floats, neither empty nor changed.
            generator: Source of all randomness.

        Returns:
            A new (N, C, S) of the same type.
        """

    def __call__(self, signals: Tensor, generator: Generator | None = None) -> Tensor:
        """Augment frames.

        Args:
            signals: (N, C, S) floats: N frames of C leads and S samples.
            generator: Source of all randomness; None: torch's default generator.

        Returns:
            A new (N, C, S) of the same type.
        """
        if signals.ndim != 3 or not signals.is_floating_point():
            raise ValueError(
                f"{type(self).__name__}: expected floats (N, C, S), got {signals.dtype} {tuple(signals.shape)}"
            )
        if not signals.numel():
            return signals.clone()
        return self.apply_by_chance(signals, torch.default_generator if generator is None else generator)

    def apply_by_chance(self, signals: Tensor, generator: Generator) -> Tensor:
        """Augment each frame with the configured probability."""
        if self.probability == 1:
            return self.apply(signals, generator)
        chosen = uniform(signals, (len(signals), 1, 1), generator) < self.probability
        return torch.where(chosen, self.apply(signals, generator), signals)

    def check_options(self) -> None:
        """Check the attributes against the constructor's annotations.

        Raises:
            ConfigError: If an option is invalid.
        """
        options_of(self)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class and has the same options."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        """Return a hash of class and options."""
        return hash(repr(self))

    def __repr__(self) -> str:
        """Return the call that makes it."""
        options = ", ".join(f"{name}={value!r}" for name, value in options_of(self).items())
        return f"{type(self).__name__}({options})"


AUGMENTATIONS: Registry[type[Augmentation]] = Registry("augmentation")
register = AUGMENTATIONS.register


def uniform(signals: Tensor, size: tuple[int, ...], generator: Generator) -> Tensor:
    """Draw from [0, 1), in float64 whatever the type of the signals, so that all types draw alike.

    Args:
        signals: Tensor whose device the result has.
        size: Shape of the result.
        generator: Source of the draws.
    """
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(signals.device)
