"""Collections of recordings that several datasets publish, under other names, resampled or filtered.

Hashes of signals cannot recognize a filtered copy. Datasets of one collection can therefore be combined, or trained on
and tested on each other, only if their record ids can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final


@dataclass(frozen=True)
class Publication:
    """The recordings of a collection that one dataset contains."""

    dataset: str
    """Name of the dataset."""
    pattern: str
    """Regular expression of their record ids. Its group is the id within the collection; without a group, ids cannot
    be compared with those of other datasets."""

    @cached_property
    def record_ids(self) -> re.Pattern[str]:
        """Return the compiled pattern."""
        return re.compile(self.pattern)

    @property
    def has_ids(self) -> bool:
        """Return whether record ids can be compared with those of other datasets."""
        return self.record_ids.groups > 0


@dataclass(frozen=True)
class Collection:
    """Recordings that several datasets contain."""

    name: str
    """Name of the collection."""
    publications: tuple[Publication, ...]
    """The datasets that contain them."""
    same_signals: bool = False
    """True if all datasets have the same samples, so that hashes of signals recognize every recording."""


_CHAPMAN_ID: Final = r"(JS(?:0\d{4}|10[0-5]\d{2}|106[0-3]\d|1064[0-6]))"
_NINGBO_ID: Final = r"(JS(?!0\d{4}|10[0-5]\d{2}|106[0-3]\d|1064[0-6])\d{5})"

COLLECTIONS: Final = (
    Collection("PTB-XL", (Publication("ptbxl", r"0*(\d+)_[hl]r"), Publication("physionet2021", r"HR0*(\d+)"))),
    Collection(
        "CPSC 2018",
        (Publication("physionet2020", r"(A\d{4})"), Publication("physionet2021", r"(A\d{4})")),
        same_signals=True,
    ),
    Collection(
        "Chapman-Shaoxing",
        (
            Publication("chapman", r"MUSE_\d+_\d+_\d+"),
            Publication("ecg-arrhythmia", _CHAPMAN_ID),
            Publication("physionet2021", _CHAPMAN_ID),
        ),
    ),
    Collection("Ningbo", (Publication("ecg-arrhythmia", _NINGBO_ID), Publication("physionet2021", _NINGBO_ID))),
)
"""Known collections. Only datasets of this package are listed."""


@dataclass(frozen=True)
class SharedRecording:
    """A recording that several datasets contain."""

    collection: Collection
    """The collection."""
    publication: Publication
    """The dataset that it comes from."""
    record_id: str
    """Id within the collection; empty if the dataset has other ids."""


def publications_of(dataset: str) -> Iterator[tuple[Collection, Publication]]:
    """Iterate over the collections that a dataset contains."""
    for collection in COLLECTIONS:
        for publication in collection.publications:
            if publication.dataset == dataset:
                yield collection, publication


def find_shared_recording(dataset: str, record_id: str) -> SharedRecording | None:
    """Return the recording of a collection that a dataset has under a record id; None if it is in no collection.

    Example:
        >>> shared = find_shared_recording("physionet2021", "HR00007")
        >>> shared.collection.name, shared.record_id
        ('PTB-XL', '7')
        >>> find_shared_recording("physionet2021", "E00001") is None
        True
    """
    for collection, publication in publications_of(dataset):
        if match := publication.record_ids.fullmatch(record_id):
            return SharedRecording(collection, publication, match.group(1) if publication.has_ids else "")
    return None


def incomparable_datasets(collection: Collection, dataset: str) -> list[str]:
    """Return the other datasets of a collection whose recordings cannot be compared with those of a dataset."""
    if collection.same_signals:
        return []
    own = next(item for item in collection.publications if item.dataset == dataset)
    others = (item for item in collection.publications if item.dataset != dataset)
    return [other.dataset for other in others if not (own.has_ids and other.has_ids)]
