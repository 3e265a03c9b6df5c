"""The split contract: nobody who trained an encoder may test it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import LeakError
from clocs.store.splits import PARTS, Split
from clocs.store.store import Store
from clocs.training.seen_recordings import has_seen_keys, seen_mask, was_trained_on_split


def check_leakage(
    folder: Path | None, about: dict[str, Any], store: Store, split: Split, *, refuse: bool = True
) -> dict[str, Any]:
    """Refuse test patients of whom the encoder has seen any recording, under whatever name; else what was found.

    ``folder``: where the encoder lies; None for one that has seen nothing. ``refuse=False``: count them instead.
    """
    if folder is None:
        return {"seen": "nothing: random weights"}
    if not has_seen_keys(folder, about):
        return _same_split(about, store, split)
    seen = seen_mask(folder, about, store)
    patient, patients = store.patient_codes()
    known = np.zeros(patients, bool)
    known[patient[seen]] = True
    crossing = np.flatnonzero(split.mask("test") & known[patient])
    if len(crossing) and refuse:
        names = store.table(["record_id"]).column(0)
        raise LeakError(
            f"this encoder was trained on patients of the test part of split '{split.name}': {len(crossing)} test "
            f"recordings are theirs, '{names[int(crossing[0])]}' among them. Use the split that it was trained with."
        )
    found: dict[str, Any] = {"seen": {part: int((seen & split.mask(part)).sum()) for part in PARTS}}
    return found if refuse else {**found, "leaks": len(crossing)}


def _same_split(about: dict[str, Any], store: Store, split: Split) -> dict[str, Any]:
    """An encoder without a list of what it has seen can be trusted only with the very split it was trained on."""
    if was_trained_on_split(about, store, split):
        return {"seen": "the training and validation parts of this very split"}
    raise LeakError(
        "this encoder does not say which recordings it has seen, and it was trained with another store or split: "
        "its patients may be in the test part. Train it again, or evaluate with the store and split it names."
    )
