"""Published splits of a dataset: the folds of its publisher, or lists of recordings that come with the package."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib.resources import files

PART_LISTS = "part_lists"
"""Folder of the lists of recordings, beside this file."""


@dataclass(frozen=True)
class PublishedSplit:
    """A split that a dataset names: by the values of a column, or by a list of recordings.

    Example:
        >>> folds = clocs.DATASETS.get("ptbxl").splits["folds"]
        >>> folds.column, folds.test
        ('strat_fold', (10,))
    """

    title: str
    """Description in one line."""
    column: str = "record_id"
    """Column of the store with the values."""
    train: tuple[str | int, ...] = ()
    """Values of the train part."""
    validation: tuple[str | int, ...] = ()
    """Values of the validation part."""
    test: tuple[str | int, ...] = ()
    """Values of the test part."""
    part_list: str = ""
    """Name of a list in the folder ``part_lists`` that replaces the values; empty without one."""

    def values(self) -> dict[str, list[str | int]]:
        """Return the values of each part."""
        if not self.part_list:
            return {"train": list(self.train), "validation": list(self.validation), "test": list(self.test)}
        return {part: list(ids) for part, ids in read_part_list(self.part_list).items()}


def read_part_list(name: str) -> dict[str, list[str]]:
    """Read a list of recordings that comes with the package.

    Args:
        name: Name of the list.

    Returns:
        Record ids of each part: ``train``, ``validation`` and ``test``.
    """
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    data = files("clocs.datasets").joinpath(PART_LISTS, f"{name}.csv.gz").read_bytes()
    for row in csv.DictReader(gzip.decompress(data).decode().splitlines()):
        parts[row["part"]].append(row["record_id"])
    return parts
