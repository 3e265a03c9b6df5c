"""Keys of recordings that several datasets publish, to recognize them in stores of other datasets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clocs.datasets.overlaps import Collection, SharedRecording, find_shared_recording, publications_of
from clocs.store.duplicates import Keys

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader


def recording_keys(store: StoreReader) -> Keys:
    """Return a 64-bit hash of each recording's id within its collection, (recordings,).

    It is 0 for recordings of no collection, and for those without an id there.
    """
    keys = np.zeros(len(store), np.uint64)
    for number, shared in _shared_recordings(store):
        if shared.record_id:
            keys[number] = _key(f"{shared.collection.name}/{shared.record_id}")
    return keys


def shared_collections(store: StoreReader, records: npt.NDArray[np.bool_]) -> list[Collection]:
    """Return the collections that some recordings of a store belong to.

    Args:
        store: The store.
        records: Mask over the recordings of the store, (recordings,).
    """
    return list({shared.collection: None for number, shared in _shared_recordings(store) if records[number]})


def collection_keys(store: StoreReader, records: npt.NDArray[np.bool_]) -> Keys:
    """Return hashes of the collections that some recordings of a store belong to, and one of the dataset, (N,).

    It is empty if the dataset shares no recordings with others.
    """
    name = dataset_name(store)
    if not any(publications_of(name)):
        return np.empty(0, np.uint64)
    keys = [collection_key(collection, name) for collection in shared_collections(store, records)]
    return np.array([dataset_key(name), *keys], np.uint64)


def collection_key(collection: Collection, dataset: str) -> np.uint64:
    """Return a 64-bit hash of a collection as a dataset contains it."""
    return _key(f"{collection.name} of {dataset}")


def dataset_key(dataset: str) -> np.uint64:
    """Return a 64-bit hash of a dataset, which says that keys of its collections are listed."""
    return _key(f"collections of {dataset}")


def dataset_name(store: StoreReader) -> str:
    """Return the name of the dataset of a store."""
    return str(store.manifest.dataset["name"])


def _shared_recordings(store: StoreReader) -> Iterator[tuple[int, SharedRecording]]:
    """Iterate over the recordings that belong to a collection, with their indices."""
    dataset = dataset_name(store)
    if not any(publications_of(dataset)):
        return
    for number, record_id in enumerate(store.table(["record_id"]).column(0).to_pylist()):
        shared = find_shared_recording(dataset, record_id)
        if shared is not None:
            yield number, shared


def _key(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))
