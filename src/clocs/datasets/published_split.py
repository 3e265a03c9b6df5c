"""Published splits of a dataset: folds of its publisher, or lists of recordings that come with the package."""

from __future__ import annotations

from dataclasses import dataclass

from clocs.datasets.csv_tables import package_table


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
    table: str = ""
    """Table of the package with the columns ``record_id`` and ``part``, instead of values; empty without one."""

    def values(self) -> dict[str, list[str | int]]:
        """Return the values of each part.

        Returns:
            Values by part: ``train``, ``validation`` and ``test``.
        """
        parts: dict[str, list[str | int]] = {
            "train": list(self.train),
            "validation": list(self.validation),
            "test": list(self.test),
        }
        for row in package_table(self.table) if self.table else ():
            parts[row["part"]].append(row["record_id"])
        return parts
