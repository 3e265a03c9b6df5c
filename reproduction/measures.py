"""Measures of embeddings without a classifier. Results are small and have no patient ids."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, Literal

from clocs.similarity.patient_groups import group_patients
from clocs.similarity.scoring.audit import audit
from clocs.similarity.scoring.cohort import open_cohort
from clocs.similarity.scoring.pairs import patient_distances
from clocs.similarity.scoring.retrieval import neighbor_agreement

Folder = str | os.PathLike[str]


def _distances(encoder: Folder, store: Folder, *, seed: int, **options: Any) -> dict[str, Any]:
    """Measure distances within and between patients."""
    cohort = open_cohort(encoder, store, seed=seed, **options)
    found = patient_distances(cohort.rows.values, cohort.rows.patient, seed=seed)
    return {"distances": {**found.as_dict(), "histogram": found.histogram()}, "notes": list(cohort.notes)}


def _neighbours(encoder: Folder, store: Folder, **options: Any) -> dict[str, Any]:
    """Measure how often the nearest patients have the same labels."""
    cohort = open_cohort(encoder, store, **options)
    patients = cohort.patients()
    found = neighbor_agreement(patients.values, patients.truth, patients.classes)
    return {"neighbours": found, "notes": list(cohort.notes)}


def _audit(encoder: Folder, store: Folder, *, part: Literal["test"], **options: Any) -> dict[str, Any]:
    """Run the privacy audit."""
    found = audit(encoder, store, **options)
    return {"audit": found, "notes": found.pop("notes")}


def _groups(encoder: Folder, store: Folder, *, fine: bool = False, **options: Any) -> dict[str, Any]:
    """Cluster patients."""
    cohort = open_cohort(encoder, store, **options)
    return {
        "groups": group_patients(cohort, cluster_selection="leaf" if fine else "eom").as_dict(),
        "notes": list(cohort.notes),
    }


MEASURES: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "distances": _distances,
    "neighbours": _neighbours,
    "audit": _audit,
    "groups": _groups,
}
"""Functions by protocol. Each takes an encoder and a store; it returns its result under the protocol's name, and notes.

Options are part, frames and seed, as for ``open_cohort``, and those of the measure."""
