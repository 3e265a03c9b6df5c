"""Filters on the patients that a search returns: site, age, sex, label, extra columns and shared leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError, OptionError
from clocs.similarity.index.searcher import Bools
from clocs.store.extra_columns import match_values


@dataclass(frozen=True)
class Filter:
    """Conditions that a patient must all meet; None is no condition. Patients with a missing value do not match."""

    site: str | None = None
    age: tuple[float, float] | None = None
    """Minimum and maximum age in years, both included."""
    sex: Literal["female", "male"] | None = None
    label: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """A value, or several of which one must match, by name of an extra column. None stands for an absent value. A
    patient matches by any recording."""

    leads: tuple[str, ...] = ()
    """Leads of the query, of which a patient's recordings must have at least one. Empty: no condition."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", {name: _as_tuple(values) for name, values in self.columns.items()})
        if self.age is not None:
            if len(self.age) != 2:
                raise OptionError(f"Expected an age range of two values in years, such as (40, 80), got {self.age}.")
            object.__setattr__(self, "age", tuple(self.age))  # a list is not hashable
            if not self.age[0] <= self.age[1]:
                raise OptionError(f"Expected an age range in ascending order, got {self.age[0]} to {self.age[1]}.")
        if self.sex not in (None, "female", "male"):
            raise OptionError(f"Expected sex 'female' or 'male', got '{self.sex}'.")

    def mask(self, patients: pa.RecordBatch, types: Mapping[str, pa.DataType] | None = None) -> Bools:
        """Return a mask of the patients that meet all conditions.

        Args:
            patients: Table of patients.
            types: Types of the extra columns, by name.

        Returns:
            Mask, shape (rows,).

        Raises:
            OptionError: An extra column is unknown, or a value is not of its type.
        """
        kept = np.ones(patients.num_rows, bool)
        if self.site is not None:
            kept &= _true(pc.equal(patients.column("site"), self.site))
        if self.sex is not None:
            kept &= _true(pc.equal(patients.column("sex"), self.sex))
        if self.age is not None:
            age = patients.column("age")
            kept &= _true(pc.and_(pc.greater_equal(age, self.age[0]), pc.less_equal(age, self.age[1])))
        if self.label is not None:
            kept &= _has_name(patients.column("labels"), (self.label,))
        if self.leads:
            kept &= _has_name(patients.column("leads"), self.leads)
        for name, values in self.columns.items():
            kept &= _has_value(patients.column("extra"), name, values, types or {})
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


def parse_columns(conditions: Iterable[str]) -> dict[str, list[str | None]]:
    """Return conditions on extra columns, given as text.

    Args:
        conditions: Conditions such as ``device=CS-12``. Of several values for one column, one must match. An empty
            value stands for an absent one.

    Returns:
        Values by column.

    Raises:
        OptionError: A condition has no name or no value.
    """
    found: dict[str, list[str | None]] = {}
    for text in conditions:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise OptionError(f"Expected a condition such as device=CS-12, got '{text}'.")
        found.setdefault(name.strip(), []).append(value.strip() or None)
    return found


def _as_tuple(values: Any) -> tuple[Any, ...]:
    """Return a value or several as a tuple."""
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else (values,)


def _has_name(lists: pa.LargeListArray, names: tuple[str, ...]) -> Bools:
    """Return which lists have one of some names."""
    has = np.zeros(len(lists), bool)
    named = pc.is_in(lists.flatten(), value_set=pa.array(names, pa.large_string()))
    has[pc.list_parent_indices(lists).filter(named).to_numpy()] = True
    return has


def _has_value(extra: pa.LargeListArray, name: str, values: tuple[Any, ...], types: Mapping[str, pa.DataType]) -> Bools:
    """Return which patients have one of some values in an extra column, or none at all if a value is None."""
    if name not in types:
        known = ", ".join(types) or "none"
        raise OptionError(
            f"Unknown column '{name}'. Extra columns of this index: {known}. Site, age, sex and label have their own "
            "options."
        )
    pairs, owner = extra.flatten(), pc.list_parent_indices(extra).to_numpy()
    chosen = pc.equal(pc.struct_field(pairs, "name"), name)
    owner = owner[chosen.to_numpy(zero_copy_only=False)]
    held = pc.struct_field(pairs, "value").filter(chosen).cast(types[name])
    has = np.zeros(len(extra), bool)
    if None in values:
        has[:] = True
        has[owner] = False
    try:
        matches = match_values(name, pa.chunked_array([held]), [value for value in values if value is not None])
    except ConfigError as error:
        raise OptionError(str(error)) from error
    has[owner[matches]] = True
    return has


def _true(found: pa.BooleanArray) -> Bools:
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))
