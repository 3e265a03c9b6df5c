"""Groups of patients that nobody named: clusters of embeddings, and who is in them.

Density-based (HDBSCAN): a patient who lies nowhere near many others belongs to no group. Groups depend on the
encoder, the dimensions and the smallest size; they are a place to look, not a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.metrics.ranking import Bools, Floats
from clocs.similarity.patient_map import PatientMap, PatientMetadata, map_patients, reduce_dimensions
from clocs.similarity.scoring.cohort import Cohort
from clocs.similarity.segments import Ints

DIMENSIONS: Final = 10
"""Principal directions kept: density means little in many dimensions."""
MIN_GROUP_SIZE: Final = 15
"""Patients of the smallest group, unless that is less than ``MIN_GROUP_SHARE`` of all."""
MIN_GROUP_SHARE: Final = 0.01
MIN_SAMPLES: Final = 15
"""Neighbours by which a point's density is told. Of 5, 10 and 15 in 5 or 10 dimensions, these are among the settings
whose groups were found again most often (``stability``) in validation patients of Chapman and PhysioNet 2020."""
NUM_REPEATS: Final = 5
LEFT_OUT_SHARE: Final = 0.5
"""Of the patients, to see whether the groups are found again: with fewer, even those of a cloud without any are."""
NO_GROUP: Final = -1


@dataclass(frozen=True)
class Group:
    """Patients who belong together, or to none."""

    number: int
    """0 is the largest; ``NO_GROUP``."""
    patients: int
    shares: dict[str, float]
    """Of its patients, who have a class; the most enriched first."""
    enrichment: dict[str, float | None]
    """A share divided by that of the whole archive."""
    median_age: float | None
    female: float | None
    """Share of those whose sex is known."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "in no group" if self.number == NO_GROUP else f"group {self.number}"

    def describe_labels(self, most: int = 3) -> str:
        """The labels that are more frequent than in the whole archive, the most enriched first."""
        telling = [name for name, ratio in self.enrichment.items() if ratio is not None and ratio > 1][:most]
        return ", ".join(f"{name} {self.shares[name]:.0%} (x{self.enrichment[name]:.1f})" for name in telling)

    def legend(self) -> str:
        """For a legend."""
        return f"{self.title}, {self.patients}: {self.describe_labels(2)}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Grouping:
    """Groups of a cohort, and where its patients lie on a map."""

    groups: list[Group]
    assignment: Ints
    """(P,) the group of each patient."""
    stability: float | None
    """Of ``stability``."""
    patient_map: PatientMap

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = [group.as_dict() for group in self.groups]
        return {"patients": len(self.assignment), "stability": self.stability, "groups": told}


def group_patients(cohort: Cohort, *, min_group_size: int | None = None, fine: bool = False) -> Grouping:
    """The groups that a cohort's patients form, and who is in them; options as for ``find_groups``."""
    patients, patient_map = cohort.patients(), map_patients([cohort])
    assignment = find_groups(patients.values, min_group_size=min_group_size, fine=fine)
    groups = describe_groups(assignment, patients.truth, patients.classes, patient_map.metadata)
    return Grouping(
        groups,
        assignment,
        group_stability(patients.values, assignment, min_group_size=min_group_size, fine=fine),
        patient_map,
    )


def find_groups(values: npt.NDArray[np.floating], *, min_group_size: int | None = None, fine: bool = False) -> Ints:
    """(P,) the group of each patient (P, E), by size from 0 on; ``NO_GROUP`` where there is none.

    ``fine``: the smallest groups that are dense, instead of those that stay whole over the widest range of densities.
    """
    from sklearn.cluster import HDBSCAN

    fewest = max(MIN_GROUP_SIZE, round(MIN_GROUP_SHARE * len(values))) if min_group_size is None else min_group_size
    if not 2 <= fewest <= len(values):
        raise ConfigError(f"the smallest of the groups of {len(values)} patients cannot be {fewest}; it is 2 or more")
    reduced = reduce_dimensions(values, DIMENSIONS)[0]
    chosen, core = "leaf" if fine else "eom", min(MIN_SAMPLES, fewest)
    clusters = HDBSCAN(min_cluster_size=fewest, min_samples=core, cluster_selection_method=chosen, copy=True)
    found = np.asarray(clusters.fit_predict(reduced), np.int64)
    sizes = np.bincount(found[found >= 0])
    number = np.empty(len(sizes) + 1, np.int64)
    number[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    number[-1] = NO_GROUP
    return np.asarray(number[found])


def group_stability(
    values: npt.NDArray[np.floating],
    groups: Ints,
    *,
    min_group_size: int | None = None,
    fine: bool = False,
    seed: int = 0,
) -> float | None:
    """How alike the groups are when half of the patients are left out: the adjusted Rand index, mean of five draws.

    1: the same groups; 0: as alike as chance. Those in no group count as one. None: there is no group.
    """
    from sklearn.metrics import adjusted_rand_score

    if (groups == NO_GROUP).all():
        return None
    random, found = generator(seed, "stability"), []
    for _ in range(NUM_REPEATS):
        kept = np.sort(random.choice(len(values), round((1 - LEFT_OUT_SHARE) * len(values)), replace=False))
        again = find_groups(values[kept], min_group_size=min_group_size, fine=fine)
        found.append(adjusted_rand_score(groups[kept], again))
    return float(np.mean(found))


def describe_groups(groups: Ints, labels: Bools, classes: tuple[str, ...], metadata: PatientMetadata) -> list[Group]:
    """Who is in each group (P,), by labels (P, K), age and sex; those in none come last."""
    archive = labels.mean(0)
    numbers = sorted(np.unique(groups).tolist(), key=lambda number: (number == NO_GROUP, number))
    return [_describe(number, groups == number, labels, classes, archive, metadata) for number in numbers]


def _describe(
    number: int, inside: Bools, labels: Bools, classes: tuple[str, ...], archive: Floats, metadata: PatientMetadata
) -> Group:
    shares = labels[inside].mean(0)
    ratio = np.divide(shares, archive, out=np.zeros_like(shares), where=archive > 0)
    order = np.argsort(-ratio, kind="stable")
    age, sex = metadata.age[inside], metadata.sex[inside]
    known = np.isin(sex, ("female", "male"))
    return Group(
        number=number,
        patients=int(inside.sum()),
        shares={classes[place]: float(shares[place]) for place in order},
        enrichment={classes[place]: float(ratio[place]) if archive[place] > 0 else None for place in order},
        median_age=float(np.nanmedian(age)) if np.isfinite(age).any() else None,
        female=float((sex[known] == "female").mean()) if known.any() else None,
    )
