"""Overlap of stores: those of one training may not share recordings, which may be in other parts of their splits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clocs.core.errors import LeakError
from clocs.datasets.overlaps import incomparable_datasets
from clocs.store.duplicates import Ints, Keys, lead_keys, patient_keys, signal_keys
from clocs.store.shared_recordings import dataset_name, recording_keys, shared_collections
from clocs.store.store import Store


def refuse_shared_recordings(stores: Sequence[Store]) -> None:
    """Refuse stores that share a recording or a patient, or that may contain copies that cannot be recognized.

    Raises:
        LeakError: Two stores share recordings. The message names one of each.
    """
    for same_kind in zip(*map(_key_sets, stores), strict=True):
        for one, other in itertools.combinations(same_kind, 2):
            shared = np.intersect1d(one.keys[one.keys > 0], other.keys)
            if len(shared):
                names = " and ".join(f"'{keys.first_record_id(shared[0])}'" for keys in (one, other))
                raise LeakError(
                    f"extra_stores: {len(shared)} {one.kind} are in both {one.store.folder} and {other.store.folder}, "
                    f"such as those of {names}. Ingest them into one store, so that its split keeps them together."
                )
    _refuse_copies(stores)


def _refuse_copies(stores: Sequence[Store]) -> None:
    """Refuse stores of datasets that contain the same recordings under ids and samples that cannot be compared."""
    collections = [shared_collections(store, np.ones(len(store), bool)) for store in stores]
    for (one, own), (other, others) in itertools.combinations(zip(stores, collections, strict=True), 2):
        for collection in own:
            if collection in others and dataset_name(other) in incomparable_datasets(collection, dataset_name(one)):
                raise LeakError(
                    f"extra_stores: {one.folder} and {other.folder} both contain recordings of {collection.name}, "
                    "which cannot be compared by ids or samples. Train on one of them."
                )


@dataclass(frozen=True)
class _KeySet:
    """Keys of one kind (signals, patients, ids or leads) that identify the recordings of a store in other stores."""

    kind: str
    store: Store
    records: Ints
    """Recording number of each key."""
    keys: Keys

    def first_record_id(self, key: np.uint64) -> str:
        """Return the id of the first recording with a key."""
        return str(self.store.table(["record_id"]).column(0)[int(self.records[np.argmax(self.keys == key)])])


def _key_sets(store: Store) -> Iterator[_KeySet]:
    """Yield the keys of signals, patients, ids and leads. Leads come last, because they need all samples."""
    records = np.arange(len(store))
    yield _KeySet("signals", store, records, signal_keys(store))
    yield _KeySet("patients", store, records, patient_keys(store))
    yield _KeySet("recordings", store, records, recording_keys(store))
    yield _KeySet("leads", store, *lead_keys(store, np.ones(len(store), bool), all_leads=True))
