"""Embeddings as they are, with nothing fitted to them: protocols of a grid whose results are small, and name nobody."""

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
    """Within and between patients."""
    cohort = open_cohort(encoder, store, seed=seed, **options)
    found = patient_distances(cohort.rows.values, cohort.rows.patient, seed=seed)
    return {"distances": {**found.as_dict(), "histogram": found.histogram()}, "notes": list(cohort.notes)}


def _neighbours(encoder: Folder, store: Folder, **options: Any) -> dict[str, Any]:
    """Whether the nearest patients have the same labels."""
    cohort = open_cohort(encoder, store, **options)
    patients = cohort.patients()
    found = neighbor_agreement(patients.values, patients.truth, patients.classes)
    return {"neighbours": found, "notes": list(cohort.notes)}


def _audit(encoder: Folder, store: Folder, *, part: Literal["test"], **options: Any) -> dict[str, Any]:
    """What they give away of test patients, and of those who trained the encoder."""
    found = audit(encoder, store, **options)
    return {"audit": found, "notes": found.pop("notes")}


def _groups(encoder: Folder, store: Folder, *, fine: bool = False, **options: Any) -> dict[str, Any]:
    """Groups that patients form by themselves."""
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
"""By protocol: an encoder and a store -> what was found, under the protocol's name, and notes.

Options: part, frames and seed, as for ``open_cohort``, and the measure's own."""
