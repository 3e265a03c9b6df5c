"""Modules and batches on the device that runs them: one path for a CPU and for others."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError

Placed = TypeVar("Placed", bound=nn.Module)


def place_module(module: Placed, device: str | None) -> Placed:
    """Move a module to a device.

    Args:
        module: The module.
        device: A device of torch, such as ``cpu`` or ``cuda:0``; None to leave the module where it is.

    Returns:
        The module.

    Raises:
        ConfigError: There is no such device.
    """
    try:
        return module if device is None else module.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device '{device}' cannot be used: {reason}. Use 'cpu', 'cuda' or 'mps'.") from error


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module; the CPU for one without weights."""
    return next((value.device for value in module.state_dict().values()), torch.device("cpu"))


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device. To a GPU it goes from page-locked memory, while the caller continues."""
    if device.type != "cuda" or values.device.type != "cpu":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)
