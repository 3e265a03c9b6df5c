"""What a store says about patients beside their signals: by what a map is coloured and groups are described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.evaluation.rows import Rows
from clocs.metrics.ranking import Floats
from clocs.store.store import Store

Strings = npt.NDArray[np.str_]
UNKNOWN: Final = "unknown"
NO_LABEL: Final = "none"
SEVERAL: Final = "several"


@dataclass(frozen=True)
class Facts:
    """Of P patients, (P,) each, from the first of their recordings that was looked at."""

    record_id: Strings
    label: Strings
    """The name of the class; ``none``, or ``several``."""
    age: Floats
    """Years; NaN where unknown."""
    sex: Strings
    site: Strings
    """Where a store names no site, the dataset's name."""

    def telling(self) -> dict[str, Strings | Floats]:
        """What a map is coloured by."""
        return {"label": self.label, "age": self.age, "sex": self.sex, "site": self.site}


def facts_of(store: Store, patients: Rows) -> Facts:
    """Facts of patients, a row each."""
    table = store.table(["record_id", "age", "sex", "site"])
    columns = {name: table.column(name).take(patients.record).to_pylist() for name in table.column_names}
    dataset = store.manifest.dataset["name"]
    return Facts(
        np.array(columns["record_id"], str),
        class_names(patients),
        np.array([np.nan if age is None else age for age in columns["age"]], np.float64),
        np.array([sex or UNKNOWN for sex in columns["sex"]], str),
        np.array([site or dataset for site in columns["site"]], str),
    )


def class_names(patients: Rows) -> Strings:
    """(P,) the one class of each patient, ``none``, or ``several``."""
    if not patients.classes:
        return np.full(len(patients.truth), NO_LABEL)
    count = patients.truth.sum(1)
    single = np.array([*patients.classes, NO_LABEL])[np.where(count > 0, patients.truth.argmax(1), -1)]
    return np.where(count > 1, SEVERAL, single)
