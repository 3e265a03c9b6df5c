"""Networks that torch runs on a chosen device. Torch is imported when one is constructed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clocs.core.errors import MissingExtraError
from clocs.training.onnx_session import Floats, Mask

if TYPE_CHECKING:
    from torch import nn


class TorchNetwork:
    """An encoder's module: (N, C, S) frames and, for C > 1, their (N, C) lead mask to (N, E) embeddings.

    Args:
        module: The encoder; it is moved to the device and set to eval mode.
        device: A device of torch, such as ``cpu`` or ``cuda:0``.
    """

    package = "torch"

    def __init__(self, module: nn.Module, device: str) -> None:
        from clocs.training.devices import device_of, place_module

        self._module = place_module(module, device).eval()
        self._device = device_of(self._module)

    def __call__(self, signals: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        import torch

        from clocs.training.devices import to_device

        inputs = [to_device(torch.from_numpy(signals), self._device)]
        if signals.shape[1] > 1:
            inputs.append(to_device(torch.from_numpy(lead_mask), self._device))
        with torch.inference_mode():
            embeddings: Floats = self._module(*inputs).float().cpu().numpy()
        return embeddings


def require_torch(purpose: str) -> None:
    """Raise an error that names the extra to install, unless torch is installed."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("train", purpose) from error
