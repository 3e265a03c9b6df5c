"""Batches from several stores: items may be of any of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from clocs.core.errors import UnitError
from clocs.views.batch import DRAW_BLOCK, Batch, BatchMaker

Ints = npt.NDArray[np.int64]


class JointBatchMaker:
    """Several makers as one: items and patients are numbered through, store after store."""

    def __init__(self, makers: Sequence[BatchMaker]) -> None:
        self._makers = makers
        self._items = np.cumsum([0, *(len(maker) for maker in makers)])
        self._people = np.cumsum([0, *(maker.patient_count for maker in makers)])
        self.leads = tuple(dict.fromkeys(lead for maker in makers for lead in maker.leads))
        self.unit = makers[0].unit
        if len({maker.unit for maker in makers}) > 1 and not all(maker.scales for maker in makers):
            raise UnitError(
                "stores in millivolt and in raw steps (adu) cannot be trained on together as they are: amplitudes "
                "would differ a thousandfold. Scale all frames: frames.normalisation=unit"
            )
        self.classes: tuple[str, ...] = ()
        """None: classes of several stores are not the same."""

    def __len__(self) -> int:
        return int(self._items[-1])

    @property
    def sizes(self) -> list[int]:
        """Items of each store."""
        return [len(maker) for maker in self._makers]

    def patients(self, items: Ints) -> Ints:
        """The patient of each item."""
        found = np.empty(len(items), np.int64)
        for number, there in self._by_store(items):
            found[there] = self._people[number] + self._makers[number].patients(items[there] - self._items[number])
        return found

    def make(self, items: Ints, place: int, *names: str | int) -> Batch:
        """A batch of items that stand at ``place`` of a global batch; ``names`` name its draws."""
        blocks = range(0, len(items), DRAW_BLOCK)
        parts = [self._block(items[at : at + DRAW_BLOCK], place + at, names) for at in blocks]
        views = torch.cat([part.views for part in parts])
        patients = torch.from_numpy(self.patients(items))
        return Batch(views, patients, torch.from_numpy(items), torch.zeros((len(items), 0), dtype=torch.bool))

    def _block(self, items: Ints, place: int, names: tuple[str | int, ...]) -> Batch:
        """Instances that share their draws, store by store: the same ones whichever rank makes them."""
        found: list[Batch] = []
        places: list[Ints] = []
        for number, there in self._by_store(items):
            found.append(self._makers[number].make(items[there] - self._items[number], place, *names, number))
            places.append(there)
        order = torch.from_numpy(np.argsort(np.concatenate(places)))
        fields = ("views", "patients", "items", "targets")
        return Batch(*(torch.cat([getattr(part, field) for part in found])[order] for field in fields))

    def _by_store(self, items: Ints) -> Iterator[tuple[int, Ints]]:
        """Each store that has some of the items, with their places."""
        owner = np.searchsorted(self._items, items, "right") - 1
        for number in np.unique(owner):
            yield int(number), np.flatnonzero(owner == number)
