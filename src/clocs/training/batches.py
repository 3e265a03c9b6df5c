"""Batches that a method trains on: views of frames, made from one or several datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clocs.core.errors import ConfigError, UnitError
from clocs.core.seeds import derived_seed
from clocs.methods import Batch, Method
from clocs.signals.framing import FramePolicy
from clocs.training.frame_dataset import FrameDataset

Ints = npt.NDArray[np.int64]
DRAW_BLOCK = 16
"""Instances that share a generator. Draws depend on an instance's position in the global batch, not on which rank holds
it, so any number of ranks makes the same views."""


class Batches:
    """Makes the batches of one part of the data for a method: gathers frames, makes views, normalises them.

    Items are numbered from 0 through all datasets, one after the other.

    Args:
        datasets: Frames of each store, cut by the policy that :func:`policy_for_views` returns.
        policies: The frame policy of each, whose normalisation the views get.
        method: The method that makes the views.
        seed: Root seed of the draws.
    """

    def __init__(
        self, datasets: Sequence[FrameDataset], policies: Sequence[FramePolicy], method: Method, seed: int
    ) -> None:
        self.datasets, self.policies = tuple(datasets), tuple(policies)
        self._method, self._seed = method, seed
        self._first = np.cumsum([0, *map(len, datasets)])
        self.leads = tuple(dict.fromkeys(lead for dataset in datasets for lead in dataset.leads))
        self.classes = datasets[0].classes if len(datasets) == 1 else ()
        """Classes of several stores are not the same: then there are none."""
        self.unit = self._common_unit()

    def __len__(self) -> int:
        return int(self._first[-1])

    @property
    def sizes(self) -> list[int]:
        """Items of each dataset."""
        return [len(dataset) for dataset in self.datasets]

    def patients(self, items: Ints) -> Ints:
        """Return the patient of each item."""
        found = np.empty(len(items), np.int64)
        for number, at in self._by_dataset(items):
            found[at] = self.datasets[number].patients(items[at] - self._first[number])
        return found

    def targets(self, items: Ints) -> npt.NDArray[np.bool_]:
        """Return the classes of each item, (B, K), of a single dataset."""
        (dataset,) = self.datasets
        return dataset.frames.targets(items)

    def make(self, items: Ints, position: int, *names: str | int) -> Batch:
        """Make a batch.

        Args:
            items: Numbers of the items, (B,).
            position: Position of the first one in the global batch.
            names: Name the draws: part, epoch and step.
        """
        if position % DRAW_BLOCK:
            raise ConfigError(f"a rank's share of a batch must be a multiple of {DRAW_BLOCK}, not end at {position}")
        if len(self.datasets) == 1:
            return {**self._views(0, items, position, names), "item": torch.from_numpy(items)}
        parts: list[Batch] = []
        positions: list[Ints] = []
        for begin in range(0, len(items), DRAW_BLOCK):
            block = items[begin : begin + DRAW_BLOCK]
            for number, at in self._by_dataset(block):
                own = block[at] - self._first[number]
                parts.append(self._views(number, own, position + begin, (*names, number)))
                positions.append(begin + at)
        order = torch.from_numpy(np.argsort(np.concatenate(positions)))
        joined = {key: torch.cat([part[key] for part in parts])[order] for key in parts[0]}
        return {**joined, "item": torch.from_numpy(items)}

    def _by_dataset(self, items: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield each dataset that has some of the items, with their positions."""
        owner = np.searchsorted(self._first, items, "right") - 1
        for number in np.unique(owner):
            yield int(number), np.flatnonzero(owner == number)

    def _views(self, number: int, items: Ints, position: int, names: tuple[str | int, ...]) -> Batch:
        """Views, mask, patients and targets of items of one dataset."""
        method = self._method
        frames = self.datasets[number].batch(items, targets=method.needs_labels)
        blocks = torch.split(frames["signal"], DRAW_BLOCK) if method.is_stochastic else (frames["signal"],)
        made: list[Batch] = []
        for at, block in enumerate(blocks):
            seed = derived_seed(self._seed, "views", *names, position // DRAW_BLOCK + at)
            generator = torch.Generator().manual_seed(seed)
            views = method.views(block, generator)
            made.append({"views": views, **method.draw_masks(views, generator)})
        batch = {key: torch.cat([part[key] for part in made]) for key in made[0]}
        mask = self._lead_mask(frames["lead_mask"], batch["views"]) if self._has_masks else None
        if not method.normalizes_first:
            batch["views"] = torch.from_numpy(self.policies[number].normalize(batch["views"].numpy()))
        if mask is not None:
            batch["lead_mask"] = mask
            batch["views"] = batch["views"] * mask.unsqueeze(-1)
        known: Batch = {key: frames[key] for key in ("patient", "target") if key in frames}
        return {**batch, **known}

    @property
    def _has_masks(self) -> bool:
        """Whether leads of a view may be missing: in the recordings, or because an augmentation drops them."""
        if self._method.encoder.in_channels == 1:
            return False
        return self._method.drops_leads or any(policy.allow_missing_leads for policy in self.policies)

    def _lead_mask(self, present: Tensor, views: Tensor) -> Tensor:
        """Return (B, V, C), true where a view has a lead. A dropped lead is zero."""
        mask = present.unsqueeze(1).expand(views.shape[:3])
        return mask & (views != 0).any(-1) if self._method.drops_leads else mask.clone()

    def _common_unit(self) -> str:
        units = {dataset.unit for dataset in self.datasets}
        scaled = all(policy.normalization != "none" for policy in self.policies)
        if len(units) > 1 and not scaled:
            raise UnitError(
                "stores in millivolt and in raw steps (adu) cannot be trained on together as they are: amplitudes "
                "would differ a thousandfold. Scale all frames: frames.normalization=minmax"
            )
        unitless = self._method.normalizes_first and scaled
        if units != {"mV"} and self._method.needs_millivolt and not unitless:
            raise UnitError(
                "the method augments signals in millivolt, but the files of this store give no gain: they are in raw "
                "steps (adu). Give noise by relative size: {name: gaussian_noise, relative: true, sigma: 0.05}."
            )
        return self.datasets[0].unit


def policy_for_views(policy: FramePolicy, method: Method) -> FramePolicy:
    """Return the policy by which frames are gathered: not yet normalised where views are made in mV."""
    return policy if method.normalizes_first else policy.model_copy(update={"normalization": "none"})
