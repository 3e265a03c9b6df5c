"""Samplers: the items of a global batch as a function of seed, epoch and step, in constant memory.

Elements of a permutation of any size are computed one by one (a Feistel network with cycle walking). Nothing is listed
or shuffled, and each rank finds its own share without communication.
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
"""Rounds of the Feistel network."""
GROUP_SIZE = 16
"""Number of batches that are computed together."""


class Sampler(Protocol):
    """Items of each batch, by epoch and step."""

    steps: int
    """Number of whole batches in an epoch. Remaining items are left out."""

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch."""
        ...


class Permutation:
    """Random permutation of 0 to ``size`` - 1, computed element by element."""

    def __init__(self, size: int, seed: int) -> None:
        if size < 1:
            raise ValueError("A permutation needs at least one element")
        self._size = np.uint64(size)
        self._half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = [np.uint64(derived_seed(seed, "round", number)) for number in range(ROUNDS)]

    def __call__(self, positions: npt.ArrayLike) -> Ints:
        """Return the elements at some positions."""
        elements = self._scramble(np.atleast_1d(np.asarray(positions)).astype(np.uint64))
        while len(outside := np.flatnonzero(elements >= self._size)):
            elements[outside] = self._scramble(elements[outside])
        return elements.astype(np.int64)

    def _scramble(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        left, right = values >> self._half, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right + key) & self._mask)
        return (left << self._half) | right


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix bits by the finaliser of SplitMix64, where every input bit affects every output bit."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class ShuffledSampler:
    """Sampler of every item once per epoch, in random order: of 0 to ``size`` - 1, or of ``chosen`` items."""

    def __init__(self, size: int, batch_size: int, seed: int, chosen: Ints | None = None) -> None:
        size = size if chosen is None else len(chosen)
        if size < batch_size:
            raise ConfigError(f"{size} instances do not fill a batch of {batch_size}. Set batch_size={size} or less.")
        self.steps = size // batch_size
        self._size, self._batch, self._seed, self._chosen = size, batch_size, seed, chosen
        self._batches = functools.lru_cache(maxsize=2)(self._compute)

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch."""
        group, index = divmod(step, GROUP_SIZE)
        items: Ints = self._batches(epoch, group)[index]
        return items

    def _compute(self, epoch: int, group: int) -> Ints:
        """Return the items (batches, B) of a group, which takes little longer than one batch."""
        order = Permutation(self._size, derived_seed(self._seed, "epoch", epoch))
        steps = min((group + 1) * GROUP_SIZE, self.steps)
        items = order(np.arange(group * GROUP_SIZE * self._batch, steps * self._batch)).reshape(-1, self._batch)
        return items if self._chosen is None else self._chosen[items]


class AlternatingSampler:
    """Sampler of batches from one store each, in turn, with the same number of batches for all stores.

    An epoch contains every item of the first store once. The other stores continue from the epoch before and are
    repeated as needed. In a batch of several stores, most negatives could be recognized by the recording device.
    """

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int) -> None:
        self._samplers = [
            ShuffledSampler(size, batch_size, derived_seed(seed, "store", number)) for number, size in enumerate(sizes)
        ]
        self._first = np.cumsum([0, *sizes])
        self.steps = len(sizes) * self._samplers[0].steps

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch, numbered over all stores."""
        turn, store = divmod(epoch * self.steps + step, len(self._samplers))
        items = self._samplers[store].batch(*divmod(turn, self._samplers[store].steps))
        return np.asarray(self._first[store] + items)


class RepeatedSampler:
    """Sampler of epochs with several passes over another sampler's items, each in another order."""

    def __init__(self, sampler: Sampler, passes_per_epoch: int) -> None:
        self._sampler, self._passes = sampler, passes_per_epoch
        self.steps = passes_per_epoch * sampler.steps

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch."""
        passes, index = divmod(step, self._sampler.steps)
        return self._sampler.batch(epoch * self._passes + passes, index)


class PatientSampler:
    """Sampler of batches with the same number of items of each patient. Patients with fewer items are left out.

    Patients come in random order, once per epoch. The items of a patient are drawn without replacement.
    """

    def __init__(self, patients: Ints, batch_size: int, per_patient: int, seed: int) -> None:
        order = np.argsort(patients, kind="stable")
        _, first, counts = np.unique(patients[order], return_index=True, return_counts=True)
        eligible = np.flatnonzero(counts >= per_patient)
        if per_patient < 2 or batch_size % per_patient or len(eligible) * per_patient < batch_size:
            raise ConfigError(
                f"instances_per_patient={per_patient} must be 2 or more and divide batch_size={batch_size}. A batch "
                f"needs {batch_size // max(per_patient, 1)} patients with {per_patient} instances or more, "
                f"and {len(eligible)} patients have them."
            )
        self._items, self._first, self._counts = order, first[eligible], counts[eligible]
        self._batch, self._per_patient, self._seed = batch_size, per_patient, seed
        self.steps = len(eligible) * per_patient // batch_size

    def batch(self, epoch: int, step: int) -> Ints:
        """Return the items (B,) of a batch, grouped by patient."""
        seed = derived_seed(self._seed, "epoch", epoch)
        num_patients = self._batch // self._per_patient
        chosen = Permutation(len(self._first), seed)(np.arange(step * num_patients, (step + 1) * num_patients))
        return np.concatenate([self._items_of(int(patient), seed) for patient in chosen])

    def _items_of(self, patient: int, seed: int) -> Ints:
        order = Permutation(int(self._counts[patient]), derived_seed(seed, patient))
        return np.asarray(self._items[self._first[patient] + order(np.arange(self._per_patient))])
