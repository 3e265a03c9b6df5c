"""Keys of the recordings that an encoder has seen in training or validation, stored with its weights.

A key is eight bytes of a hash of the samples, of a whole recording or of one of its leads. The latter recognize a
recording in a store with other leads. Where several datasets publish the same recordings, there is also a key of each
recording's id among them, and one of the dataset, because a filtered copy has other samples. If pseudonyms were made
with a secret key, there is also a key of each patient, which recognizes the patient in other stores made with the same
secret. The keys reveal nothing about a person, but with a recording one can check whether it was used. Evaluation
refuses test patients that were seen.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import IntegrityError
from clocs.core.hashes import file_hash
from clocs.core.storage.files import write_bytes
from clocs.datasets.overlaps import Collection, incomparable_datasets
from clocs.store.duplicates import Keys, lead_keys, patient_keys, signal_keys
from clocs.store.shared_recordings import (
    collection_key,
    collection_keys,
    dataset_key,
    dataset_name,
    recording_keys,
    shared_collections,
)
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.training.encoder_folder import read_config

FILE = "seen.npy"


def seen_keys(store: Store, split: Split) -> Keys:
    """Return the sorted, unique keys of the training and validation recordings, of a lead of each, and of patients.

    They include the keys of recordings and collections that several datasets publish.
    """
    used = split.mask("train") | split.mask("validation")
    of_recordings = [signal_keys(store), patient_keys(store), recording_keys(store)]
    keys_of_leads = lead_keys(store, used, all_leads=False)[1]
    of_used = [keys[used] for keys in of_recordings]
    keys = np.unique(np.concatenate([*of_used, keys_of_leads, collection_keys(store, used)]))
    return keys[keys > 0]


def has_seen_keys(folder: Path, about: dict[str, Any]) -> bool:
    """Return whether an encoder's folder has the keys of seen recordings. The file may be left out for sharing."""
    return "seen_sha256" in about and (folder / FILE).exists()


def extend_seen_keys(folder: Path, about: dict[str, Any], keys: Iterable[Keys]) -> Keys:
    """Return the union of an encoder's keys and further keys.

    Raises:
        IntegrityError: The encoder's keys are missing or damaged.
    """
    seen = [load_seen_keys(folder, about["seen_sha256"])] if "seen_sha256" in about else []
    return np.unique(np.concatenate([*seen, *keys]))


def seen_mask(folder: Path, about: dict[str, Any], store: Store) -> npt.NDArray[np.bool_]:
    """Return a mask of a store's recordings that an encoder has seen, by signals, single leads, patients or ids."""
    seen_keys = load_seen_keys(folder, about["seen_sha256"])
    seen = np.zeros(len(store), bool)
    for keys in (signal_keys(store), patient_keys(store), recording_keys(store)):
        seen |= np.isin(keys, seen_keys) & (keys > 0)
    if not _was_trained_on_store_only(about, store):
        number, keys_of_leads = lead_keys(store, ~seen, all_leads=True)
        seen[number[np.isin(keys_of_leads, seen_keys)]] = True
    return seen


def incomparable_training_data(
    folder: Path, about: dict[str, Any], store: Store, records: npt.NDArray[np.bool_]
) -> list[tuple[Collection, str]]:
    """Return the datasets of an encoder's training that may contain recordings of a store as unrecognizable copies.

    Args:
        folder: Folder of the encoder.
        about: Content of the encoder's config.json.
        store: The store.
        records: Mask over the recordings of the store, (recordings,).

    Returns:
        Collections of recordings, each with a dataset of the training that contains it.
    """
    keys = load_seen_keys(folder, about["seen_sha256"])
    named = str(about.get("training", {}).get("dataset", "")).split(" + ")
    found = []
    for collection in shared_collections(store, records):
        own = dataset_name(store)
        incomparable = incomparable_datasets(collection, own)
        for other in (item.dataset for item in collection.publications if item.dataset != own):
            is_incomparable = other in incomparable and collection_key(collection, other) in keys
            # Encoders of older versions list no ids, only the names of their datasets.
            has_no_ids = other in named and dataset_key(other) not in keys and not collection.same_signals
            if is_incomparable or has_no_ids:
                found.append((collection, other))
    return found


def has_seen(folder: Path, keys: Keys) -> bool | None:
    """Return whether an encoder has seen a recording, lead or patient with one of these keys.

    Args:
        folder: Folder of the encoder.
        keys: 64-bit keys, as :func:`clocs.withdraw` returns them, (N,).

    Returns:
        True or False; None if the encoder does not list what it has seen.
    """
    about = read_config(folder)
    if not has_seen_keys(folder, about):
        return None
    return bool(np.isin(keys, load_seen_keys(folder, about["seen_sha256"])).any())


def _was_trained_on_store_only(about: dict[str, Any], store: Store) -> bool:
    """Return whether an encoder was trained on this store only, so that keys of whole signals are sufficient."""
    training = about.get("training", {})
    others = training.get("extra_stores") or training.get("init_from")
    return training.get("store_sha256") == store.sha256 and not others


def training_hashes(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Return store and split hashes of an encoder's training data, in order; empty for random weights."""
    training = about.get("training")
    stores = (training, *training.get("extra_stores", ())) if training else ()
    return [(item["store_sha256"], item["split_sha256"]) for item in stores]


def was_trained_on_split(about: dict[str, Any], store: Store, split: Split) -> bool:
    """Return whether an encoder was trained on this split, so that it has seen its training and validation parts."""
    training = about.get("training", {})
    return bool((training.get("store_sha256"), training.get("split_sha256")) == (store.sha256, split.sha256))


def save_seen_keys(folder: Path, keys: Keys) -> str:
    """Write keys to an encoder's folder and return the file's hash."""
    raw = io.BytesIO()
    np.save(raw, keys.astype("<u8"), allow_pickle=False)
    return write_bytes(folder / FILE, raw.getvalue())


def copy_seen_keys(source: Path, target: Path) -> None:
    """Copy the keys of one encoder's folder to another's."""
    write_bytes(target / FILE, (source / FILE).read_bytes())


def load_seen_keys(folder: Path, sha256: str) -> Keys:
    """Return the keys of seen recordings from an encoder's folder.

    Raises:
        IntegrityError: The file is missing or does not have the expected hash.
    """
    try:
        if file_hash(folder / FILE) != sha256:
            raise IntegrityError(f"{folder / FILE}: content differs from its hash")
        return np.asarray(np.load(folder / FILE, allow_pickle=False), np.uint64)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{folder / FILE}: cannot be read: {error}") from error
