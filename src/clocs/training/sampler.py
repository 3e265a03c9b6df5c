"""Which items make a global batch: a function of seed, epoch and step, in constant memory.

A permutation of any size is computed place by place (a Feistel network with cycle walking), so nothing
is listed or shuffled, and each rank finds its own share without being told.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed

Ints = npt.NDArray[np.int64]
ROUNDS = 6
TOGETHER = 16
"""Batches whose items are computed at once."""


class Sampler(Protocol):
    """Items by epoch and step."""

    steps: int
    """Whole batches in an epoch; what is left over waits for the next one."""

    def batch(self, epoch: int, step: int) -> Ints:
        """(B,) item numbers."""
        ...


class Permutation:
    """A random order of 0..size-1, computed where it is asked for."""

    def __init__(self, size: int, seed: int) -> None:
        if size < 1:
            raise ValueError("a permutation needs at least one element")
        self._size = np.uint64(size)
        self._half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = [np.uint64(derived_seed(seed, "round", number)) for number in range(ROUNDS)]

    def __call__(self, places: npt.ArrayLike) -> Ints:
        """What stands at these places."""
        out = self._scramble(np.atleast_1d(np.asarray(places)).astype(np.uint64))
        while len(outside := np.flatnonzero(out >= self._size)):
            out[outside] = self._scramble(out[outside])
        return out.astype(np.int64)

    def _scramble(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right + key) & self._mask)
        return (left << self._half) | right


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser: every bit of the input moves every bit of the output."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class ShuffledSampler:
    """Every item once an epoch, in random order: of 0..size-1, or of ``chosen`` ones."""

    def __init__(self, size: int, batch_size: int, seed: int, chosen: Ints | None = None) -> None:
        size = size if chosen is None else len(chosen)
        if size < batch_size:
            raise ConfigError(f"{size} instances do not fill a batch of {batch_size}; choose batch={size} or less")
        self.steps = size // batch_size
        self._size, self._batch, self._seed, self._chosen = size, batch_size, seed, chosen
        self._batches = functools.lru_cache(maxsize=2)(self._compute)

    def batch(self, epoch: int, step: int) -> Ints:
        """(B,) item numbers."""
        group, place = divmod(step, TOGETHER)
        items: Ints = self._batches(epoch, group)[place]
        return items

    def _compute(self, epoch: int, group: int) -> Ints:
        """(batches, B) at once, which takes little longer than one."""
        order = Permutation(self._size, derived_seed(self._seed, "epoch", epoch))
        steps = min((group + 1) * TOGETHER, self.steps)
        items = order(np.arange(group * TOGETHER * self._batch, steps * self._batch)).reshape(-1, self._batch)
        return items if self._chosen is None else self._chosen[items]


class AlternatingSampler:
    """Stores take turns: every batch is of one of them, and all have as many, however large they are.

    An epoch takes every item of the first store once; the others go on where they were, and begin anew when they are
    through. In a batch of several stores, most others are told apart by the device alone, and teach nothing.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int) -> None:
        self._samplers = [
            ShuffledSampler(size, batch_size, derived_seed(seed, "store", number)) for number, size in enumerate(sizes)
        ]
        self._first = np.cumsum([0, *sizes])
        self.steps = len(sizes) * self._samplers[0].steps

    def batch(self, epoch: int, step: int) -> Ints:
        """(B,) item numbers, store after store numbered through."""
        turn, store = divmod(epoch * self.steps + step, len(self._samplers))
        items = self._samplers[store].batch(*divmod(turn, self._samplers[store].steps))
        return np.asarray(self._first[store] + items)


class RepeatedSampler:
    """An epoch goes several times over another sampler's items, each time in another order."""

    def __init__(self, sampler: Sampler, passes_per_epoch: int) -> None:
        self._sampler, self._repeats = sampler, passes_per_epoch
        self.steps = passes_per_epoch * sampler.steps

    def batch(self, epoch: int, step: int) -> Ints:
        """(B,) item numbers."""
        done, place = divmod(step, self._sampler.steps)
        return self._sampler.batch(epoch * self._repeats + done, place)


class PatientSampler:
    """Each patient brings ``each`` of their items to a batch; those who have fewer are left out.

    Patients come in random order, once an epoch; a patient's items are drawn without replacement.
    """

    def __init__(self, patients: Ints, batch_size: int, each: int, seed: int) -> None:
        order = np.argsort(patients, kind="stable")
        _, first, counts = np.unique(patients[order], return_index=True, return_counts=True)
        rich = np.flatnonzero(counts >= each)
        if each < 2 or batch_size % each or len(rich) * each < batch_size:
            raise ConfigError(
                f"instances_per_patient={each} needs a batch that is a multiple of it and {batch_size // max(each, 1)} "
                f"patients with {each} instances; {len(rich)} have as many"
            )
        self._items, self._first, self._counts = order, first[rich], counts[rich]
        self._batch, self._each, self._seed = batch_size, each, seed
        self.steps = len(rich) * each // batch_size

    def batch(self, epoch: int, step: int) -> Ints:
        """(B,) item numbers, a patient's items side by side."""
        seed = derived_seed(self._seed, "epoch", epoch)
        people = self._batch // self._each
        chosen = Permutation(len(self._first), seed)(np.arange(step * people, (step + 1) * people))
        return np.concatenate([self._items_of(int(who), seed) for who in chosen])

    def _items_of(self, who: int, seed: int) -> Ints:
        order = Permutation(int(self._counts[who]), derived_seed(seed, who))
        return np.asarray(self._items[self._first[who] + order(np.arange(self._each))])
