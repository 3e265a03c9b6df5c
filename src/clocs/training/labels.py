"""Random fractions of labels, and the message for stores without classes.

With the same seed, a smaller fraction is a subset of a larger one.
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
"""Unit in which labels are drawn. ``patients``: all labels of some patients. ``frames``: the labels of some frames, so
that nearly all patients have labels, as in the released code of the paper."""


def no_classes_message(store: Store) -> str:
    """Return the message that a store has no classes, with advice."""
    name = store.manifest.dataset["name"]
    how = "an option of the same ingest, -o classes=SR,AF=AFIB+AFL" if name == "folder" else "its field 'classes'"
    return (
        f"this store has no classes, because dataset '{name}' does not define which labels form a class. Define "
        f"classes ({how}), ingest again into the same store, which adds a version without reading the files again, and "
        "split it under another name."
    )


def sample_patients(
    store: Store, records: npt.NDArray[np.bool_], label_fraction: float, seed: int
) -> npt.NDArray[np.bool_]:
    """Return a mask of the recordings of a random fraction of the patients.

    Args:
        store: The store.
        records: Mask (N,) of the recordings to draw from.
        label_fraction: Fraction of the patients, over 0 and at most 1.
        seed: Seed of the draw.

    Returns:
        Mask (N,) of recordings.
    """
    patient, patients = store.patient_codes()
    present = np.unique(patient[records])
    chosen = np.zeros(patients, bool)
    chosen[present[_sample(len(present), label_fraction, seed)]] = True
    return np.asarray(records & chosen[patient])


def sample_items(count: int, label_fraction: float, seed: int) -> npt.NDArray[np.int64]:
    """Return a random fraction of the items 0 to ``count`` - 1, in ascending order."""
    return np.sort(_sample(count, label_fraction, seed))


def _sample(count: int, label_fraction: float, seed: int) -> npt.NDArray[np.int64]:
    if not 0 < label_fraction <= 1:
        raise ConfigError(f"label_fraction must be over 0 and at most 1, not {label_fraction}")
    kept = max(1, round(label_fraction * count))
    return generator(seed, "labels").permutation(count)[:kept]
