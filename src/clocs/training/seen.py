"""What an encoder has seen: keys of its training and validation signals, kept beside its weights.

A key is eight bytes of a hash of the samples, so the list says nothing about anyone; but whoever holds a
recording can tell whether it was used. Evaluation refuses test patients who were.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import IntegrityError
from clocs.core.files import file_hash, write_bytes
from clocs.store.duplicates import signal_keys
from clocs.store.splits import Split
from clocs.store.store import Store

FILE = "seen.npy"
Keys = npt.NDArray[np.uint64]


def seen_keys(store: Store, split: Split) -> Keys:
    """Keys of the recordings that train, or decide when to stop, in order and each once."""
    used = split.mask("train") | split.mask("validation")
    keys = np.unique(signal_keys(store)[used])
    return keys[keys > 0]


def same_split(about: dict[str, Any], store: Store, split: Split) -> bool:
    """Whether an encoder was trained on this very split: then it has seen its training and validation parts."""
    told = about.get("training", {})
    return bool((told.get("store_sha256"), told.get("split_sha256")) == (store.sha256, split.sha256))


def save_seen(folder: Path, keys: Keys) -> str:
    """Write the keys beside an encoder; their hash."""
    raw = io.BytesIO()
    np.save(raw, keys.astype("<u8"), allow_pickle=False)
    write_bytes(folder / FILE, raw.getvalue())
    return file_hash(folder / FILE)


def load_seen(folder: Path, sha256: str) -> Keys:
    """The keys beside an encoder, if they have the hash that its config states."""
    try:
        if file_hash(folder / FILE) != sha256:
            raise IntegrityError(f"{folder / FILE}: content differs from its hash")
        return np.asarray(np.load(folder / FILE, allow_pickle=False), np.uint64)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{folder / FILE}: cannot be read: {error}") from error
