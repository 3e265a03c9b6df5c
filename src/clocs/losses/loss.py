"""The registry of losses.

A loss is an ``nn.Module`` whose options are keyword arguments of its constructor. It can be used alone. Another package
adds one by an entry point of the group ``clocs.losses``, a script or notebook by ``@losses.register("name")``.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from clocs.core.options import options_of
from clocs.core.registry import Registry

LOSSES: Registry[type[nn.Module]] = Registry("loss", plural="losses")
register = LOSSES.register


class Loss(nn.Module):
    """Base class of the losses here: it checks the options and shows them.

    A constructor stores each option as an attribute of the same name, then calls ``check_options``.
    """

    def check_options(self) -> None:
        """Check the attributes against the constructor's annotations.

        Raises:
            ConfigError: If an option is invalid.
        """
        options_of(self)

    def extra_repr(self) -> str:
        """Return the options for ``repr``."""
        options: dict[str, Any] = options_of(self)
        return ", ".join(f"{name}={value!r}" for name, value in options.items())
