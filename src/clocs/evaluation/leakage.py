"""Leakage check: no patient of an encoder's training data may be in the test part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import LeakError
from clocs.store.splits import PARTS, Split
from clocs.store.store import Store
from clocs.training.seen_recordings import (
    has_seen_keys,
    incomparable_training_data,
    seen_mask,
    was_trained_on_split,
)


def check_leakage(
    folder: Path | None, about: dict[str, Any], store: Store, split: Split, *, refuse: bool = True
) -> dict[str, Any]:
    """Check that the encoder has seen no recording of a test patient, under any name.

    Args:
        folder: Folder of the encoder. None: random weights, which have seen nothing.
        about: Content of the encoder's config.json.
        store: Store of the evaluation.
        split: Split of the evaluation.
        refuse: Raise an error for a leak. Otherwise leaks are counted.

    Returns:
        Number of recordings of each part that the encoder has seen, for a result.

    Raises:
        LeakError: A test patient was seen, the encoder has no list of what it has seen, or it was trained on another
            dataset that contains the test recordings under ids that cannot be compared.
    """
    if folder is None:
        return {"seen": "nothing: random weights"}
    if not has_seen_keys(folder, about):
        return _check_same_split(about, store, split)
    if refuse:
        _check_copies(folder, about, store, split)
    seen = seen_mask(folder, about, store)
    patient, num_patients = store.patient_codes()
    was_seen = np.zeros(num_patients, bool)
    was_seen[patient[seen]] = True
    leaks = np.flatnonzero(split.mask("test") & was_seen[patient])
    if len(leaks) and refuse:
        names = store.table(["record_id"]).column(0)
        raise LeakError(
            f"This encoder was trained on patients of the test part of split '{split.name}': {len(leaks)} test "
            f"recordings are theirs, '{names[int(leaks[0])]}' among them. Use the split that it was trained with."
        )
    counts: dict[str, Any] = {"seen": {part: int((seen & split.mask(part)).sum()) for part in PARTS}}
    return counts if refuse else {**counts, "leaks": len(leaks)}


def _check_copies(folder: Path, about: dict[str, Any], store: Store, split: Split) -> None:
    """Refuse test recordings that another dataset of the training contains as filtered or resampled copies."""
    for collection, dataset in incomparable_training_data(folder, about, store, split.mask("test")):
        raise LeakError(
            f"Test recordings of split '{split.name}' belong to {collection.name}, and this encoder was trained on the "
            f"dataset '{dataset}', which contains the same patients. Their recordings cannot be compared by "
            f"ids or samples. Leave {collection.name} out of the test part, or use an encoder trained without it."
        )


def _check_same_split(about: dict[str, Any], store: Store, split: Split) -> dict[str, Any]:
    """Accept an encoder without a list of seen recordings only with the split that it was trained on."""
    if was_trained_on_split(about, store, split):
        return {"seen": "the training and validation parts of this very split"}
    raise LeakError(
        "This encoder has no list of the recordings it has seen, and was trained with another store or split. Its "
        "patients may be in the test part. Train it again, or evaluate with the store and split of its training."
    )
