"""This rank's share of the batches of a training on several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clocs.methods import Batch
from clocs.training.batches import BatchSource
from clocs.training.devices import to_device

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class RankShare:
    """The part of each global batch that a rank has.

    Args:
        fabric: Fabric that connects ranks.
    """

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    @property
    def is_whole(self) -> bool:
        """Return whether there is a single rank."""
        return bool(self._fabric.world_size == 1)

    def part(self, items: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
        """Return this rank's part of a global batch, and its position there."""
        size = len(items) // self._fabric.world_size
        begin = self._fabric.global_rank * size
        return items[begin : begin + size], begin

    def make(self, batches: BatchSource, items: npt.NDArray[np.int64], *names: str | int) -> Batch:
        """Make this rank's part of a global batch."""
        return batches.make(*self.part(items), *names)

    def on_device(self, batch: Batch) -> Batch:
        """Return a batch on this rank's device."""
        return {name: to_device(value, self._fabric.device) for name, value in batch.items()}

    def mean(self, value: Tensor) -> float:
        """Return the mean of a value over all ranks."""
        value = value.detach()
        if not self.is_whole:
            value = torch.as_tensor(self._fabric.all_reduce(value, reduce_op="mean"))
        return float(value)
