"""How good a search by an encoder would be: neighbours' diagnoses, and patients found again."""

from __future__ import annotations

from typing import Any, Final

from clocs.similarity.scoring.cohort import Cohort, Folder, cohort_summary, open_cohort
from clocs.similarity.scoring.pairs import Distances, patient_distances
from clocs.similarity.scoring.retrieval import NUM_NEIGHBORS, neighbor_agreement, retrieve_own_segments
from clocs.store.store import Store
from clocs.training.labels import no_classes_message

RETRIEVAL_TASKS: Final = {"any_segment": False, "other_recordings": True}
"""What is found again: any other segment of the patient, or one of the patient's other recordings."""


def score_similarity(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "test",
    frames: str = "encoder",
    seed: int = 0,
    k: int = NUM_NEIGHBORS,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Agreement of the k nearest patients' labels, and finding a patient's other segments, of a part, as JSON.

    Either is None, and a note says why, where the part cannot tell. ``seed``: of random weights.
    """
    cohort = open_cohort(checkpoint, store, split=split, part=part, frames=frames, seed=seed)
    known = cohort_summary(cohort)
    found: dict[str, Any] = {
        "part": part,
        "frames": frames,
        "agreement": _agreement(cohort, k, replicates),
        "retrieval": {name: _retrieval(cohort, across, replicates) for name, across in RETRIEVAL_TASKS.items()},
    }
    if found["agreement"] is None:
        known["notes"].append(f"no agreement: {_no_agreement_reason(cohort, k)}")
    if found["retrieval"]["any_segment"] is None:
        known["notes"].append("nobody has two segments under these frames, so none can be found again; try 'segments'")
    return {**known, **found}


def score_distances(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "validation",
    frames: str = "encoder",
    seed: int = 0,
    replicates: int = 1000,
) -> tuple[Distances, dict[str, Any]]:
    """Distances between the embeddings of leads and frames of a part, as the paper has them, and all of it as JSON."""
    cohort = open_cohort(checkpoint, store, split=split, part=part, frames=frames, seed=seed)
    found = patient_distances(cohort.rows.values, cohort.rows.patient, replicates=replicates)
    return found, {**cohort_summary(cohort), "part": part, "frames": frames, **found.as_dict()}


def _retrieval(cohort: Cohort, across_recordings: bool, replicates: int) -> dict[str, Any] | None:
    """With the patients' own ids, where there are examples."""
    found = retrieve_own_segments(cohort.segments(), across_recordings=across_recordings, replicates=replicates)
    if found is not None and "examples" in found:
        codes = cohort.store.table(["patient_id"]).column(0)
        first = dict(zip(cohort.rows.patient.tolist(), cohort.rows.record.tolist(), strict=True))
        named = ((str(codes[first[one["patient"]]]), one["rank"]) for one in found["examples"])
        found["examples"] = [{"patient": patient, "rank": rank} for patient, rank in named]
    return found


def _agreement(cohort: Cohort, k: int, replicates: int) -> dict[str, Any] | None:
    patients = cohort.patients()
    if len(patients.values) <= k or not patients.truth.any():
        return None  # _why_none says which
    return neighbor_agreement(patients.values, patients.truth, patients.classes, k=k, replicates=replicates)


def _no_agreement_reason(cohort: Cohort, k: int) -> str:
    """Why there is no agreement."""
    if not cohort.rows.classes:
        return no_classes_message(cohort.store)
    patients = len(cohort.patients().values)
    if patients <= k:
        return f"it takes more than {k} patients, and here are {patients}"
    return f"nobody here has a label of the classes {', '.join(cohort.rows.classes)}"
