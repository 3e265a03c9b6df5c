"""From frames of a store to the batch a method trains on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clocs.core.errors import ConfigError, UnitError
from clocs.core.seeds import derived_seed
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store

if TYPE_CHECKING:
    from clocs.methods.method import Method

DRAW_BLOCK = 16
"""Instances that share a generator. Draws depend on an instance's place in the global batch, not on
which rank holds it, so any number of ranks makes the same views."""


@dataclass(frozen=True)
class Batch:
    """What a model sees of some instances."""

    views: Tensor
    """(B, V, C, S), normalised as the policy says."""
    patients: Tensor
    """(B,) int64, numbers within the store."""
    items: Tensor
    """(B,) int64, which frames these are."""
    targets: Tensor
    """(B, classes) bool; (B, 0) where a method needs none."""

    def split(self, count: int) -> list[Batch]:
        """The same instances in ``count`` smaller batches."""
        parts = (tensor.chunk(count) for tensor in (self.views, self.patients, self.items, self.targets))
        return [Batch(*part) for part in zip(*parts, strict=True)]

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(*(tensor.to(device) for tensor in (self.views, self.patients, self.items, self.targets)))


def _unit(store: Store, method: Method, policy: FramePolicy) -> str:
    """The unit of all recordings; augmentations in millivolt are refused where it is another that frames still have."""
    units = {shard.unit for shard in store.manifest.shards}
    if len(units) != 1 or None in units:
        raise UnitError("a store that mixes millivolt and raw steps (adu) cannot be trained on; make two of it")
    (unit,) = units
    unitless = method.normalises_first and policy.normalisation != "none"
    if unit != "mV" and method.needs_millivolt and not unitless:
        raise UnitError(
            f"{method.name} augments signals in millivolt, but the files of this store give no gain: they are in raw "
            "steps (adu). Give noise by relative size: {name: gaussian_noise, relative: true, sigma: 0.05}."
        )
    return str(unit)


class BatchMaker:
    """Cuts, augments and normalises the frames of one part of a store for a method."""

    def __init__(
        self, store: Store, policy: FramePolicy, method: Method, records: npt.NDArray[np.bool_] | None, seed: int
    ) -> None:
        # Most augmentations act in mV, so that the policy's normalisation comes after them.
        taken = policy if method.normalises_first else policy.model_copy(update={"normalisation": "none"})
        self.frames = Frames(store, taken, records=records, all_leads=method.together)
        if not len(self.frames):
            raise ConfigError(
                f"no recording of this part of {store.folder} is long enough, or has the leads, for the frames "
                f"{policy.model_dump(exclude_defaults=True)}"
            )
        self._method, self.policy, self._seed = method, policy, seed
        self.unit = _unit(store, method, policy)
        self.scales = policy.normalisation != "none"
        """Whether frames leave without their unit."""
        self.leads, self.classes = tuple(self.frames.leads), tuple(self.frames.classes)
        self._patients, self.patient_count = store.patients()

    def __len__(self) -> int:
        return len(self.frames)

    def patients(self, items: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The patient of each item."""
        return self._patients[self.frames.locate(items)[0]]

    def make(self, items: npt.NDArray[np.int64], place: int, *names: str | int) -> Batch:
        """A batch of items that stand at ``place`` of a global batch; ``names`` name its draws."""
        frames = torch.from_numpy(np.ascontiguousarray(self.frames.gather(items)))
        views = self._views(frames, place, names)
        targets = self.frames.targets(items) if self._method.needs_labels else np.zeros((len(items), 0), bool)
        return Batch(
            views=self._normalised(views).unsqueeze(2),
            patients=torch.from_numpy(self.patients(items)),
            items=torch.from_numpy(items),
            targets=torch.from_numpy(targets),
        )

    def _normalised(self, views: Tensor) -> Tensor:
        return views if self._method.normalises_first else torch.from_numpy(self.policy.normalise(views.numpy()))

    def _views(self, frames: Tensor, place: int, names: tuple[str | int, ...]) -> Tensor:
        """(B, V, S), drawn block by block."""
        if place % DRAW_BLOCK:
            raise ConfigError(f"a rank's share of a batch must be a multiple of {DRAW_BLOCK}, not end at {place}")
        blocks = torch.split(frames, DRAW_BLOCK) if self._method.draws else (frames,)
        seeds = (derived_seed(self._seed, "views", *names, place // DRAW_BLOCK + at) for at in range(len(blocks)))
        draws = (torch.Generator().manual_seed(seed) for seed in seeds)
        return torch.cat([self._method.views(block, draw) for block, draw in zip(blocks, draws, strict=True)])
