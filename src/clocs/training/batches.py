"""Batches of views, made from the frames of one or several datasets."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

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
"""Instances that share a generator. Draws depend on the position in the global batch and not on the rank, so any number
of ranks makes the same views."""


class BatchSource(Protocol):
    """Batches of one part of the data, as the training loop reads them."""

    @property
    def classes(self) -> Collection[str]:
        """Names of the classes; empty without labels."""
        ...

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def targets(self, items: Ints) -> npt.NDArray[np.bool_]:
        """Return the targets (B, K) of items."""
        ...

    def make(self, items: Ints, position: int, *names: str | int) -> Batch:
        """Make a batch of items (B,). ``names`` are those of the random draws: part, epoch and step."""
        ...


class Batches:
    """Batches of one part of the data for a method: gathered frames, turned into views and normalized.

    Items are numbered from 0 over all datasets, in their order.

    Args:
        datasets: Frames of each store, cut by the policy that :func:`policy_for_views` returns.
        policies: Frame policy of each store, which defines the normalization of the views.
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
        """Names of the classes; empty for several stores, because their classes differ."""
        self.unit = self._common_unit()

    def __len__(self) -> int:
        return int(self._first[-1])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that a worker process gets: its method makes views on the CPU."""
        return {**self.__dict__, "_method": copy.deepcopy(self._method).cpu()}

    @property
    def sizes(self) -> list[int]:
        """Return the number of items of each dataset."""
        return [len(dataset) for dataset in self.datasets]

    def patients(self, items: Ints) -> Ints:
        """Return the patient of each item."""
        patients = np.empty(len(items), np.int64)
        for number, positions in self._by_dataset(items):
            patients[positions] = self.datasets[number].patients(items[positions] - self._first[number])
        return patients

    def targets(self, items: Ints) -> npt.NDArray[np.bool_]:
        """Return the targets (B, K) of items of a single dataset."""
        (dataset,) = self.datasets
        return dataset.frames.targets(items)

    def make(self, items: Ints, position: int, *names: str | int) -> Batch:
        """Make a batch.

        Args:
            items: Indices of the items, (B,).
            position: Position of the first item in the global batch, a multiple of ``DRAW_BLOCK``.
            names: Names of the random draws: part, epoch and step.

        Returns:
            The batch.
        """
        if position % DRAW_BLOCK:
            raise ConfigError(f"Expected a position that is a multiple of {DRAW_BLOCK}, got {position}")
        if len(self.datasets) == 1:
            return {**self._views(0, items, position, names), "item": torch.from_numpy(items)}
        parts: list[Batch] = []
        positions: list[Ints] = []
        for begin in range(0, len(items), DRAW_BLOCK):
            block = items[begin : begin + DRAW_BLOCK]
            for number, in_block in self._by_dataset(block):
                own = block[in_block] - self._first[number]
                parts.append(self._views(number, own, position + begin, (*names, number)))
                positions.append(begin + in_block)
        order = torch.from_numpy(np.argsort(np.concatenate(positions)))
        joined = {key: torch.cat([part[key] for part in parts])[order] for key in parts[0]}
        return {**joined, "item": torch.from_numpy(items)}

    def _by_dataset(self, items: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the index of each dataset that holds some of the items, and the positions of these items."""
        owner = np.searchsorted(self._first, items, "right") - 1
        for number in np.unique(owner):
            yield int(number), np.flatnonzero(owner == number)

    def _views(self, number: int, items: Ints, position: int, names: tuple[str | int, ...]) -> Batch:
        """Return views, lead mask, patients and targets of items of one dataset."""
        method = self._method
        frames = self.datasets[number].batch(items, targets=method.needs_labels)
        blocks = torch.split(frames["signal"], DRAW_BLOCK) if method.is_stochastic else (frames["signal"],)
        parts: list[Batch] = []
        for number_of_block, block in enumerate(blocks, position // DRAW_BLOCK):
            seed = derived_seed(self._seed, "views", *names, number_of_block)
            generator = torch.Generator().manual_seed(seed)
            views = method.views(block, generator)
            parts.append({"views": views, **method.draw_masks(views, generator)})
        batch = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        mask = self._lead_mask(frames["lead_mask"], batch["views"]) if self._has_masks else None
        if not method.normalizes_first:
            batch["views"] = torch.from_numpy(self.policies[number].normalize(batch["views"].numpy()))
        if mask is not None:
            batch["lead_mask"] = mask
            batch["views"] = batch["views"] * mask.unsqueeze(-1)
        return {**batch, **{key: frames[key] for key in ("patient", "target") if key in frames}}

    @property
    def _has_masks(self) -> bool:
        """Return whether leads of a view may be missing, in recordings or after an augmentation."""
        if self._method.encoder.in_channels == 1:
            return False
        return self._method.drops_leads or any(policy.allow_missing_leads for policy in self.policies)

    def _lead_mask(self, present: Tensor, views: Tensor) -> Tensor:
        """Return a mask (B, V, C) of the leads that each view has. A dropped lead is zero."""
        mask = present.unsqueeze(1).expand(views.shape[:3])
        return mask & (views != 0).any(-1) if self._method.drops_leads else mask.clone()

    def _common_unit(self) -> str:
        units = {dataset.unit for dataset in self.datasets}
        scaled = all(policy.normalization != "none" for policy in self.policies)
        if len(units) > 1 and not scaled:
            raise UnitError(
                "Stores in millivolt and in raw steps (adu) have amplitudes of different scales. "
                "Normalise all frames to train on both: frames.normalization=minmax."
            )
        unitless = self._method.normalizes_first and scaled
        if units != {"mV"} and self._method.needs_millivolt and not unitless:
            raise UnitError(
                "The method augments signals in millivolt, but this store is in raw steps (adu), without a gain. "
                "Use relative noise: {name: gaussian_noise, relative: true, sigma: 0.05}."
            )
        return self.datasets[0].unit


def policy_for_views(policy: FramePolicy, method: Method) -> FramePolicy:
    """Return the policy for gathering frames, without normalization if views are made in mV."""
    return policy if method.normalizes_first else policy.model_copy(update={"normalization": "none"})
