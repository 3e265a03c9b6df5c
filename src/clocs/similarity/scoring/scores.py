"""Quality of similarity search with an encoder: label agreement, retrieval and distances."""

from __future__ import annotations

from typing import Any, Final

from clocs.similarity.scoring.cohort import Cohort, Folder, cohort_summary, open_cohort
from clocs.similarity.scoring.pairs import Distances, patient_distances
from clocs.similarity.scoring.retrieval import NUM_NEIGHBORS, neighbor_agreement, retrieve_own_segments
from clocs.store.store import Store
from clocs.training.labels import no_classes_message

RETRIEVAL_TASKS: Final = {"any_segment": False, "other_recordings": True}
"""Retrieval tasks, with True if only the patient's other recordings are searched."""


def score_similarity(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "test",
    frames: str = "encoder",
    seed: int = 0,
    device: str | None = None,
    k: int = NUM_NEIGHBORS,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Score label agreement of the k nearest patients, and retrieval of a patient's own segments.

    Args:
        checkpoint: Folder of a run or checkpoint, name of a shipped encoder, or ``"random"``.
        store: A store, or its folder.
        split: Name of the split.
        part: Part of the split, or ``"all"``.
        frames: Framing of recordings.
        seed: Seed of random weights.
        device: Torch device that runs the encoder. Default: the CPU.
        k: Number of neighbors.
        replicates: Number of bootstrap replicates.

    Returns:
        A JSON-compatible dictionary. A score that cannot be computed is None, and a note states the reason.
    """
    cohort = open_cohort(checkpoint, store, split=split, part=part, frames=frames, seed=seed, device=device)
    known = cohort_summary(cohort)
    found: dict[str, Any] = {
        "part": part,
        "frames": frames,
        "agreement": _agreement(cohort, k, replicates),
        "retrieval": {name: _retrieval(cohort, across, replicates) for name, across in RETRIEVAL_TASKS.items()},
    }
    if found["agreement"] is None:
        known["notes"].append(f"No label agreement: {_no_agreement_reason(cohort, k)}")
    if found["retrieval"]["any_segment"] is None:
        known["notes"].append("No patient has two segments, so retrieval cannot be measured. Try frames='segments'.")
    return {**known, **found}


def score_distances(
    checkpoint: Folder,
    store: Folder | Store,
    *,
    split: str = "default",
    part: str = "validation",
    frames: str = "encoder",
    seed: int = 0,
    device: str | None = None,
    replicates: int = 1000,
) -> tuple[Distances, dict[str, Any]]:
    """Measure distances between embeddings of a part of a store, within and between patients.

    Args:
        checkpoint: Folder of a run or checkpoint, name of a shipped encoder, or ``"random"``.
        store: A store, or its folder.
        split: Name of the split.
        part: Part of the split, or ``"all"``.
        frames: Framing of recordings.
        seed: Seed of random weights.
        device: Torch device that runs the encoder. Default: the CPU.
        replicates: Number of bootstrap replicates.

    Returns:
        The distances, and a JSON-compatible summary.
    """
    cohort = open_cohort(checkpoint, store, split=split, part=part, frames=frames, seed=seed, device=device)
    found = patient_distances(cohort.rows.values, cohort.rows.patient, replicates=replicates)
    return found, {**cohort_summary(cohort), "part": part, "frames": frames, **found.as_dict()}


def _retrieval(cohort: Cohort, across_recordings: bool, replicates: int) -> dict[str, Any] | None:
    """Return retrieval scores, with the store's patient ids in examples."""
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
        return None  # _no_agreement_reason explains it
    return neighbor_agreement(patients.values, patients.truth, patients.classes, k=k, replicates=replicates)


def _no_agreement_reason(cohort: Cohort, k: int) -> str:
    """Return the reason why label agreement cannot be computed."""
    if not cohort.rows.classes:
        return no_classes_message(cohort.store)
    patients = len(cohort.patients().values)
    if patients <= k:
        return f"it needs more than {k} patients, and there are {patients}."
    return f"no patient has a label of the classes {', '.join(cohort.rows.classes)}."
