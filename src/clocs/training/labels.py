"""Labels: that there are classes, and of few labels, which are used.

A smaller fraction lies inside a larger one of the same seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator

if TYPE_CHECKING:
    from clocs.store.store import Store

LabelUnit = Literal["patients", "frames"]
"""``patients``: all labels of some patients. ``frames``: as the released code, some labels of nearly all patients."""


def no_classes_message(store: Store) -> str:
    """What it means that a store names no classes, and what to do."""
    name = store.manifest.dataset["name"]
    how = "an option of the same ingest, -o classes=SR,AF=AFIB+AFL" if name == "folder" else "its field 'classes'"
    return (
        f"this store names no classes: dataset '{name}' does not say which labels make one, so whatever labels there "
        f"are, there is nothing to tell apart. Give it classes ({how}), ingest once more into the same store, which "
        "adds a version without reading files again, and split that under another name"
    )


def sample_patients(
    store: Store, records: npt.NDArray[np.bool_], label_fraction: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Of a mask over recordings, those of a random fraction of its patients."""
    patient, patients = store.patient_codes()
    present = np.unique(patient[records])
    chosen = np.zeros(patients, bool)
    chosen[present[_first(len(present), label_fraction, seed)]] = True
    return np.asarray(records & chosen[patient])


def sample_items(count: int, label_fraction: float, seed: int) -> npt.NDArray[np.int64]:
    """Of items 0..count-1, a random fraction, in order."""
    return np.sort(_first(count, label_fraction, seed))


def _first(count: int, label_fraction: float, seed: int) -> npt.NDArray[np.int64]:
    if not 0 < label_fraction <= 1:
        raise ConfigError(f"a fraction of labels must be over 0 and at most 1, not {label_fraction}")
    kept = max(1, round(label_fraction * count))
    return generator(seed, "labels").permutation(count)[:kept]
