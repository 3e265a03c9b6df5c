"""What an encoder has seen: keys of its training and validation signals, kept beside its weights.

A key is eight bytes of a hash of samples, of a whole recording and of one of its leads: so a recording is recognised in
a store with other leads. Where pseudonyms were made with a key, there is one of each patient, too, who so is recognised
by another recording in another store made with it. The list says nothing about anyone; but whoever holds a recording
can tell whether it was used. Evaluation refuses test patients who were.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import IntegrityError
from clocs.core.files import file_hash, write_bytes
from clocs.store.duplicates import Keys, lead_keys, patient_keys, signal_keys
from clocs.store.splits import Split
from clocs.store.store import Store

FILE = "seen.npy"


def seen_keys(store: Store, split: Split) -> Keys:
    """Keys of the recordings that train, or decide when to stop, and of a lead of each; in order and each once."""
    used = split.mask("train") | split.mask("validation")
    of_leads = lead_keys(store, used, all_leads=False)[1]
    keys = np.unique(np.concatenate([signal_keys(store)[used], of_leads, patient_keys(store)[used]]))
    return keys[keys > 0]


def has_seen_keys(folder: Path, about: dict[str, Any]) -> bool:
    """Whether an encoder says what it has seen; who passes one on may leave the list out."""
    return "seen_sha256" in about and (folder / FILE).exists()


def extend_seen_keys(folder: Path, about: dict[str, Any], keys: Iterable[Keys]) -> Keys:
    """What stands on an encoder's list, and these; a list that was left out is missed, for nothing may be forgotten."""
    listed = [load_seen_keys(folder, about["seen_sha256"])] if "seen_sha256" in about else []
    return np.unique(np.concatenate([*listed, *keys]))


def seen_mask(folder: Path, about: dict[str, Any], store: Store) -> npt.NDArray[np.bool_]:
    """Which recordings of a store are on an encoder's list, by all their leads or by any, or by their patient."""
    listed = load_seen_keys(folder, about["seen_sha256"])
    seen = np.zeros(len(store), bool)
    for keys in (signal_keys(store), patient_keys(store)):
        seen |= np.isin(keys, listed) & (keys > 0)
    if not _trained_on_nothing_else(about, store):
        number, of_leads = lead_keys(store, ~seen, all_leads=True)
        seen[number[np.isin(of_leads, listed)]] = True
    return seen


def _trained_on_nothing_else(about: dict[str, Any], store: Store) -> bool:
    """Then whole recordings tell all: in another store of the same patients they may have other leads."""
    told = about.get("training", {})
    others = told.get("extra_stores") or told.get("init_from")
    return told.get("store_sha256") == store.sha256 and not others


def training_hashes(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Hashes of the stores and splits that trained an encoder, in their order; none for random weights."""
    told = about.get("training")
    every = (told, *told.get("extra_stores", ())) if told else ()
    return [(item["store_sha256"], item["split_sha256"]) for item in every]


def was_trained_on_split(about: dict[str, Any], store: Store, split: Split) -> bool:
    """Whether an encoder was trained on this very split: then it has seen its training and validation parts."""
    told = about.get("training", {})
    return bool((told.get("store_sha256"), told.get("split_sha256")) == (store.sha256, split.sha256))


def save_seen_keys(folder: Path, keys: Keys) -> str:
    """Write the keys beside an encoder and return the file's hash."""
    raw = io.BytesIO()
    np.save(raw, keys.astype("<u8"), allow_pickle=False)
    return write_bytes(folder / FILE, raw.getvalue())


def load_seen_keys(folder: Path, sha256: str) -> Keys:
    """The keys beside an encoder, if they have the hash that its config states."""
    try:
        if file_hash(folder / FILE) != sha256:
            raise IntegrityError(f"{folder / FILE}: content differs from its hash")
        return np.asarray(np.load(folder / FILE, allow_pickle=False), np.uint64)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{folder / FILE}: cannot be read: {error}") from error
