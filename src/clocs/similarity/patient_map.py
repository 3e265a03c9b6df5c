"""Two-dimensional maps of patients by PCA or UMAP, colored by metadata."""

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
"""Projections. ``pca``: the first two principal components, which preserve distances as well as a plane can. ``umap``
(extra ``umap``): keeps neighbors together; large distances and island sizes carry no meaning."""
MIN_PATIENTS: Final = 3
"""Minimum number of patients on a map."""
UNKNOWN: Final = "unknown"
NO_LABEL: Final = "none"
SEVERAL_LABELS: Final = "several"


@dataclass(frozen=True)
class PatientMetadata:
    """Metadata of P patients, each field of shape (P,), from the first recording of each patient in the cohort."""

    record_id: Strings
    label: Strings
    """Class name, ``none`` or ``several``."""
    age: Floats
    """Age in years; NaN if unknown."""
    sex: Strings
    site: Strings
    """Site; the dataset's name if the store has no sites."""

    def color_columns(self) -> dict[str, Strings | Floats]:
        """Return the columns by which a map can be colored."""
        return {"label": self.label, "age": self.age, "sex": self.sex, "site": self.site}


def read_metadata(store: Store, patients: ModelOutputs) -> PatientMetadata:
    """Return the metadata of patients, one row each."""
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
    """Return the class of each patient, shape (P,): a name, ``none`` or ``several``."""
    if not patients.classes:
        return np.full(len(patients.truth), NO_LABEL)
    count = patients.truth.sum(1)
    single = np.array([*patients.classes, NO_LABEL])[np.where(count > 0, patients.truth.argmax(1), -1)]
    return np.where(count > 1, SEVERAL_LABELS, single)


@dataclass(frozen=True)
class PatientMap:
    """P patients in two dimensions."""

    points: Floats
    """Coordinates, shape (P, 2)."""
    method: str
    explained: tuple[float, float] | None
    """Share of the variance along each axis; None for UMAP."""
    metadata: PatientMetadata

    def axis_labels(self) -> tuple[str, str]:
        """Return the labels of the two axes."""
        if self.explained is None:
            return "UMAP 1", "UMAP 2"
        first, second = (f"PC {number}, {share:.0%} of the variance" for number, share in enumerate(self.explained, 1))
        return first, second

    def as_dict(self) -> dict[str, Any]:
        """Return the map as a JSON-compatible dictionary. Points with record ids are personal data."""
        columns = {field.name: getattr(self.metadata, field.name).tolist() for field in fields(self.metadata)}
        columns["age"] = [None if np.isnan(age) else age for age in self.metadata.age.tolist()]
        return {"method": self.method, "explained": self.explained, "points": self.points.tolist(), **columns}


def map_patients(cohorts: Sequence[Cohort], method: str = "pca", *, seed: int = 0) -> PatientMap:
    """Project the patients of one or several stores, embedded by the same encoder, onto one map.

    Args:
        cohorts: One cohort per store.
        method: ``"pca"`` or ``"umap"``.
        seed: Seed of UMAP.

    Returns:
        The map, with the metadata of the patients.
    """
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
    """Project vectors (P, E) to points (P, 2).

    Returns:
        The points, and the share of the variance along each axis for PCA or None for UMAP.

    Raises:
        ConfigError: There are too few patients, or the method is unknown.
        MissingExtraError: UMAP is not installed.
    """
    if len(values) < MIN_PATIENTS:
        raise ConfigError(f"Expected at least {MIN_PATIENTS} patients for a map, got {len(values)}.")
    if method == "pca":
        points, explained = reduce_dimensions(values, 2)
        return points, (float(explained[0]), float(explained[1]))
    if method == "umap":
        return _umap(values, seed), None
    raise ConfigError(f"Unknown projection '{method}'. Available: {', '.join(METHODS)}.")


def reduce_dimensions(values: npt.NDArray[np.floating], dimensions: int) -> tuple[Floats, Floats]:
    """Return vectors (P, E) in their first D principal components (P, D), with the explained variance ratios (D,)."""
    from sklearn.decomposition import PCA

    with np.errstate(invalid="ignore"):  # without any variance the ratios are undefined
        fitted = PCA(min(dimensions, *values.shape), svd_solver="covariance_eigh").fit(values.astype(np.float64))
    return np.asarray(fitted.transform(values)), np.nan_to_num(fitted.explained_variance_ratio_)


def _umap(values: npt.NDArray[np.floating], seed: int) -> Floats:
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtraError("umap", "a UMAP projection") from error
    state = derived_seed(seed, "umap") % 2**32  # UMAP is deterministic only with one thread
    fitted = UMAP(n_neighbors=min(15, len(values) - 1), metric="cosine", random_state=state, n_jobs=1)
    return np.asarray(fitted.fit_transform(values), np.float64)
