"""Clusters of patients in embedding space, and the labels, ages and sexes within them.

HDBSCAN finds clusters by density, so isolated patients belong to no group. The groups depend on the encoder, the number
of dimensions and the minimum size. Use them for exploration, not as findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.metrics.ranking import Bools, Floats
from clocs.similarity.patient_map import PatientMap, PatientMetadata, map_patients, reduce_dimensions
from clocs.similarity.scoring.cohort import Cohort
from clocs.similarity.segments import Ints

ClusterSelection = Literal["eom", "leaf"]
NUM_COMPONENTS: Final = 10
"""Principal components used for clustering; density estimates degrade in many dimensions."""
MIN_GROUP_SIZE: Final = 15
"""Default minimum number of patients per group; ``MIN_GROUP_SHARE`` of all patients if that is more."""
MIN_GROUP_SHARE: Final = 0.01
MIN_SAMPLES: Final = 15
"""Neighbors used to estimate the density of a point (``min_samples`` of HDBSCAN).

On validation patients of Chapman and PhysioNet 2020, 15 neighbors in 10 dimensions was among the most stable settings.
The grid had 5, 10 and 15 neighbors and 5 and 10 dimensions.
"""
NUM_REPEATS: Final = 5
LEFT_OUT_SHARE: Final = 0.5
"""Share of patients left out when stability is measured. With smaller shares even a cloud without groups looks stable.
"""
NO_GROUP: Final = -1


@dataclass(frozen=True)
class Group:
    """A group of patients, or the patients that belong to no group."""

    number: int
    """Number of the group by size, 0 for the largest; ``NO_GROUP`` for patients without a group."""
    patients: int
    shares: dict[str, float]
    """Share of the group's patients with each class, the most enriched class first."""
    enrichment: dict[str, float | None]
    """Share of each class divided by its share among all patients; None if no patient has the class."""
    median_age: float | None
    female: float | None
    """Share of women among the patients of known sex."""

    @property
    def title(self) -> str:
        """Name of the group in tables."""
        return "no group" if self.number == NO_GROUP else f"group {self.number}"

    def describe_labels(self, max_labels: int = 3) -> str:
        """Return the classes that are more frequent than among all patients, the most enriched first, as text."""
        enriched = [name for name, ratio in self.enrichment.items() if ratio is not None and ratio > 1][:max_labels]
        return ", ".join(f"{name} {self.shares[name]:.0%} (x{self.enrichment[name]:.1f})" for name in enriched)

    def legend(self) -> str:
        """Return the group's entry in a legend."""
        return f"{self.title}, {self.patients}: {self.describe_labels(2)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the group as a JSON-compatible dictionary."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Grouping:
    """Groups of a cohort, with a two-dimensional map of its patients."""

    groups: list[Group]
    assignment: Ints
    """Group number of each patient, shape (P,)."""
    stability: float | None
    """Result of :func:`group_stability`."""
    patient_map: PatientMap

    def as_dict(self) -> dict[str, Any]:
        """Return the groups as a JSON-compatible dictionary."""
        groups = [group.as_dict() for group in self.groups]
        return {"patients": len(self.assignment), "stability": self.stability, "groups": groups}


def group_patients(
    cohort: Cohort, *, min_group_size: int | None = None, cluster_selection: ClusterSelection = "eom"
) -> Grouping:
    """Cluster the patients of a cohort and describe the groups.

    Args:
        cohort: Patients with embeddings.
        min_group_size: See :func:`find_groups`.
        cluster_selection: See :func:`find_groups`.

    Returns:
        The groups, with their stability and a map of the patients.
    """
    patients, patient_map = cohort.patients(), map_patients([cohort])
    assignment = find_groups(patients.values, min_group_size=min_group_size, cluster_selection=cluster_selection)
    groups = describe_groups(assignment, patients.truth, patients.classes, patient_map.metadata)
    return Grouping(
        groups,
        assignment,
        group_stability(
            patients.values, assignment, min_group_size=min_group_size, cluster_selection=cluster_selection
        ),
        patient_map,
    )


def find_groups(
    values: npt.NDArray[np.floating], *, min_group_size: int | None = None, cluster_selection: ClusterSelection = "eom"
) -> Ints:
    """Assign patients to groups by density.

    Args:
        values: Embeddings of patients, shape (P, E).
        min_group_size: Minimum number of patients per group. Default: 15, or 1 % of all patients if that is more.
        cluster_selection: ``"eom"`` selects the clusters that persist over the widest range of densities, ``"leaf"``
            the smallest dense ones (``cluster_selection_method`` of HDBSCAN).

    Returns:
        Group number of each patient, shape (P,), ordered by size from 0; ``NO_GROUP`` for patients without a group.

    Raises:
        ConfigError: The minimum size is below 2 or above the number of patients.
    """
    from sklearn.cluster import HDBSCAN

    min_size = max(MIN_GROUP_SIZE, round(MIN_GROUP_SHARE * len(values))) if min_group_size is None else min_group_size
    if not 2 <= min_size <= len(values):
        raise ConfigError(
            f"Expected a minimum group size from 2 to {len(values)} (the number of patients), got {min_size}."
        )
    reduced = reduce_dimensions(values, NUM_COMPONENTS)[0]
    model = HDBSCAN(
        min_cluster_size=min_size,
        min_samples=min(MIN_SAMPLES, min_size),
        cluster_selection_method=cluster_selection,
        copy=True,
    )
    clusters = np.asarray(model.fit_predict(reduced), np.int64)
    sizes = np.bincount(clusters[clusters >= 0])
    rank = np.empty(len(sizes) + 1, np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    rank[-1] = NO_GROUP
    return np.asarray(rank[clusters])


def group_stability(
    values: npt.NDArray[np.floating],
    groups: Ints,
    *,
    min_group_size: int | None = None,
    cluster_selection: ClusterSelection = "eom",
    seed: int = 0,
) -> float | None:
    """Return the agreement between the groups and those found in random halves of the patients.

    Args:
        values: Embeddings of patients, shape (P, E).
        groups: Group number of each patient, shape (P,).
        min_group_size: See :func:`find_groups`.
        cluster_selection: See :func:`find_groups`.
        seed: Seed of the random halves.

    Returns:
        The adjusted Rand index, mean of five random halves: 1 for identical groups, 0 for chance. Patients without a
        group count as one group. None if there are no groups.
    """
    from sklearn.metrics import adjusted_rand_score

    if (groups == NO_GROUP).all():
        return None
    random, scores = generator(seed, "stability"), []
    for _ in range(NUM_REPEATS):
        kept = np.sort(random.choice(len(values), round((1 - LEFT_OUT_SHARE) * len(values)), replace=False))
        again = find_groups(values[kept], min_group_size=min_group_size, cluster_selection=cluster_selection)
        scores.append(adjusted_rand_score(groups[kept], again))
    return float(np.mean(scores))


def describe_groups(groups: Ints, labels: Bools, classes: tuple[str, ...], metadata: PatientMetadata) -> list[Group]:
    """Describe each group by labels (P, K), age and sex; patients without a group come last."""
    overall = labels.mean(0)
    numbers = sorted(np.unique(groups).tolist(), key=lambda number: (number == NO_GROUP, number))
    return [_describe(number, groups == number, labels, classes, overall, metadata) for number in numbers]


def _describe(
    number: int, inside: Bools, labels: Bools, classes: tuple[str, ...], overall: Floats, metadata: PatientMetadata
) -> Group:
    shares = labels[inside].mean(0)
    ratio = np.divide(shares, overall, out=np.zeros_like(shares), where=overall > 0)
    order = np.argsort(-ratio, kind="stable")
    age, sex = metadata.age[inside], metadata.sex[inside]
    known = np.isin(sex, ("female", "male"))
    return Group(
        number=number,
        patients=int(inside.sum()),
        shares={classes[k]: float(shares[k]) for k in order},
        enrichment={classes[k]: float(ratio[k]) if overall[k] > 0 else None for k in order},
        median_age=float(np.nanmedian(age)) if np.isfinite(age).any() else None,
        female=float((sex[known] == "female").mean()) if known.any() else None,
    )
