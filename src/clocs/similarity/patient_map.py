"""A map of an archive: every patient a point, alike ones near each other, coloured by facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.core.seeds import derived_seed
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.metrics.ranking import Floats
from clocs.similarity.scoring.cohort import Cohort
from clocs.store.store import Store

Strings = npt.NDArray[np.str_]

METHODS: Final = ("pca", "umap")
"""``pca``: the two directions in which patients differ most; distances keep their meaning. ``umap`` (extra ``umap``):
neighbours stay neighbours, while far distances and the sizes of islands mean nothing."""
MIN_PATIENTS: Final = 3
"""Points that make a map."""
UNKNOWN: Final = "unknown"
NO_LABEL: Final = "none"
SEVERAL_LABELS: Final = "several"


@dataclass(frozen=True)
class PatientMetadata:
    """Of P patients, (P,) each, from the first of their recordings that was looked at."""

    record_id: Strings
    label: Strings
    """The name of the class; ``none``, or ``several``."""
    age: Floats
    """Years; NaN where unknown."""
    sex: Strings
    site: Strings
    """Where a store names no site, the dataset's name."""

    def color_columns(self) -> dict[str, Strings | Floats]:
        """What a map is coloured by."""
        return {"label": self.label, "age": self.age, "sex": self.sex, "site": self.site}


def read_metadata(store: Store, patients: ModelOutputs) -> PatientMetadata:
    """Facts of patients, a row each."""
    table = store.table(["record_id", "age", "sex", "site"])
    columns = {name: table.column(name).take(patients.record).to_pylist() for name in table.column_names}
    dataset = store.manifest.dataset["name"]
    return PatientMetadata(
        np.array(columns["record_id"], str),
        class_names(patients),
        np.array([np.nan if age is None else age for age in columns["age"]], np.float64),
        np.array([sex or UNKNOWN for sex in columns["sex"]], str),
        np.array([site or dataset for site in columns["site"]], str),
    )


def class_names(patients: ModelOutputs) -> Strings:
    """(P,) the one class of each patient, ``none``, or ``several``."""
    if not patients.classes:
        return np.full(len(patients.truth), NO_LABEL)
    count = patients.truth.sum(1)
    single = np.array([*patients.classes, NO_LABEL])[np.where(count > 0, patients.truth.argmax(1), -1)]
    return np.where(count > 1, SEVERAL_LABELS, single)


@dataclass(frozen=True)
class PatientMap:
    """P patients in the plane."""

    points: Floats
    """(P, 2)"""
    method: str
    explained: tuple[float, float] | None
    """Shares of the variance along the two axes; None for UMAP, which has none."""
    metadata: PatientMetadata

    def axis_labels(self) -> tuple[str, str]:
        """What a picture calls the axes."""
        if self.explained is None:
            return "UMAP 1", "UMAP 2"
        first, second = (f"PC {place}, {share:.0%} of the variance" for place, share in enumerate(self.explained, 1))
        return first, second

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Points of patients with their record ids are personal data."""
        columns = {field.name: getattr(self.metadata, field.name).tolist() for field in fields(self.metadata)}
        columns["age"] = [None if np.isnan(age) else age for age in self.metadata.age.tolist()]
        return {"method": self.method, "explained": self.explained, "points": self.points.tolist(), **columns}


def map_patients(cohorts: Sequence[Cohort], method: str = "pca", *, seed: int = 0) -> PatientMap:
    """Patients of one store or several, embedded by the same encoder, on one map."""
    patients = [cohort.patients() for cohort in cohorts]
    metadata = [read_metadata(cohort.store, rows) for cohort, rows in zip(cohorts, patients, strict=True)]
    points, explained = project(np.concatenate([rows.values for rows in patients]), method, seed=seed)
    joined = {
        field.name: np.concatenate([getattr(one, field.name) for one in metadata]) for field in fields(PatientMetadata)
    }
    return PatientMap(points, method, explained, PatientMetadata(**joined))


def project(
    values: npt.NDArray[np.floating], method: str = "pca", *, seed: int = 0
) -> tuple[Floats, tuple[float, float] | None]:
    """Vectors (P, E) as points (P, 2), and for PCA the shares of the variance along both axes."""
    if len(values) < MIN_PATIENTS:
        raise ConfigError(f"a map needs at least {MIN_PATIENTS} patients, not {len(values)}")
    if method == "pca":
        points, explained = reduce_dimensions(values, 2)
        return points, (float(explained[0]), float(explained[1]))
    if method == "umap":
        return _umap(values, seed), None
    raise ConfigError(f"no map '{method}'; there are {', '.join(METHODS)}")


def reduce_dimensions(values: npt.NDArray[np.floating], dimensions: int) -> tuple[Floats, Floats]:
    """Vectors (P, E) along their D principal directions (P, D), and the shares of the variance there (D,)."""
    from sklearn.decomposition import PCA

    with np.errstate(invalid="ignore"):  # of no variance at all, shares are undefined
        fitted = PCA(min(dimensions, *values.shape), svd_solver="covariance_eigh").fit(values.astype(np.float64))
    return np.asarray(fitted.transform(values)), np.nan_to_num(fitted.explained_variance_ratio_)


def _umap(values: npt.NDArray[np.floating], seed: int) -> Floats:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("umap", "a map by UMAP") from error
    state = derived_seed(seed, "umap") % 2**32  # one thread: with a seed, UMAP is repeatable only so
    fitted = UMAP(n_neighbors=min(15, len(values) - 1), metric="cosine", random_state=state, n_jobs=1)
    return np.asarray(fitted.fit_transform(values), np.float64)
