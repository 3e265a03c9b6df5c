"""Filters on the patients that a search returns: site, age, sex and label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import OptionError
from clocs.similarity.index.searcher import Bools


@dataclass(frozen=True)
class Filter:
    """Conditions that a patient must all meet; None is no condition. Patients with a missing value do not match."""

    site: str | None = None
    age: tuple[float, float] | None = None
    """Minimum and maximum age in years, both included."""
    sex: Literal["female", "male"] | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.age is not None:
            if len(self.age) != 2:
                raise OptionError(f"Expected an age range of two values in years, such as (40, 80), got {self.age}.")
            object.__setattr__(self, "age", tuple(self.age))  # a list is not hashable
            if not self.age[0] <= self.age[1]:
                raise OptionError(f"Expected an age range in ascending order, got {self.age[0]} to {self.age[1]}.")
        if self.sex not in (None, "female", "male"):
            raise OptionError(f"Expected sex 'female' or 'male', got '{self.sex}'.")

    def mask(self, patients: pa.RecordBatch) -> Bools:
        """Return a mask of the patients that meet all conditions, shape (rows,)."""
        kept = np.ones(patients.num_rows, bool)
        if self.site is not None:
            kept &= _true(pc.equal(patients.column("site"), self.site))
        if self.sex is not None:
            kept &= _true(pc.equal(patients.column("sex"), self.sex))
        if self.age is not None:
            age = patients.column("age")
            kept &= _true(pc.and_(pc.greater_equal(age, self.age[0]), pc.less_equal(age, self.age[1])))
        if self.label is not None:
            labels = patients.column("labels")
            has = np.zeros(patients.num_rows, bool)
            has[pc.list_parent_indices(labels).filter(pc.equal(labels.flatten(), self.label)).to_numpy()] = True
            kept &= has
        return kept

    def known_values(self, patients: pa.RecordBatch) -> dict[str, set[str]]:
        """Return all sites and labels of these patients, for the conditions that are set."""
        found = {}
        if self.site is not None:
            found["site"] = set(pc.unique(patients.column("site")).to_pylist())
        if self.label is not None:
            found["label"] = set(pc.unique(patients.column("labels").flatten()).to_pylist())
        return found


NO_FILTER = Filter()


def _true(found: pa.BooleanArray) -> Bools:
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))
