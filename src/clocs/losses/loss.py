"""Base class and registry of losses.

A loss is an ``nn.Module``. Its options are the keyword arguments of its constructor. Another package adds a loss by an
entry point of the group ``clocs.losses``, a script or notebook by ``@losses.register("name")``.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from clocs.core.options import options_of
from clocs.core.registry import Registry

LOSSES: Registry[type[nn.Module]] = Registry("loss", plural="losses")
"""All losses by name."""
register = LOSSES.register


class Loss(nn.Module):
    """Base class of losses, which checks the options and shows them in ``repr``.

    The constructor of a subclass stores each option as an attribute of the same name, then calls
    :meth:`check_options`.

    Example:
        >>> class SquaredDistance(Loss):
        ...     def __init__(self, weight: float = 1.0) -> None:
        ...         super().__init__()
        ...         self.weight = weight
        ...         self.check_options()
        ...
        ...     def forward(self, embeddings):
        ...         first, second = embeddings.unbind(1)
        ...         return self.weight * (first - second).square().mean()
        >>> SquaredDistance(weight=2.0)
        SquaredDistance(weight=2.0)
    """

    def __init__(self) -> None:
        super().__init__()

    def check_options(self) -> None:
        """Check the attributes against the constructor's annotations.

        Raises:
            ConfigError: An option is invalid.
        """
        options_of(self)

    def extra_repr(self) -> str:
        """Return the options that ``repr`` shows."""
        options: dict[str, Any] = options_of(self)
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
