"""Results of a search: similar patients, and the similarity of single leads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.matching import Query, locate_recording, recording_cosine
from clocs.similarity.index.snapshot import Snapshot


@dataclass(frozen=True)
class LeadSimilarity:
    """Similarity of one lead in two recordings."""

    lead: str
    similarity: float
    """Cosine of the two lead vectors."""


@dataclass(frozen=True)
class Neighbor:
    """A patient similar to the query."""

    patient_id: str
    similarity: float
    """Cosine of the query's vector and the patient's vector."""
    distance: float
    """Distance, 1 - similarity."""
    record_id: str
    """The patient's recording most similar to the query; the first one if the archive is not available."""
    labels: tuple[str, ...]
    """Labels of all recordings of the patient."""
    age: float | None
    sex: str | None
    site: str
    recordings: int
    why: tuple[LeadSimilarity, ...]
    """Similarity of the leads that query and recording share, the most similar first."""


@dataclass(frozen=True, eq=False)
class SimilarPatients:
    """The patients most similar to a query, the most similar first."""

    query: Query
    neighbors: tuple[Neighbor, ...]
    num_hidden: int
    """Number of patients among the k nearest that are hidden, because they are too distant."""
    notes: tuple[str, ...]
    """Corrections of the query and limitations of the answer, one sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dictionary, without vectors and signals."""
        asked = {"record_id": self.query.record_id, "patient_id": self.query.patient_id}
        found = {"neighbours": [asdict(item) for item in self.neighbors], "num_hidden": self.num_hidden}
        return {"query": asked, **found, "notes": list(self.notes)}


def describe_neighbor(now: Snapshot, query: Query, row: int, cosine: float) -> Neighbor:
    """Return what the index knows about a patient that a search found."""
    facts = now.patient_info(row)
    recordings = facts["recordings"]
    chosen = recordings[0]
    why: tuple[LeadSimilarity, ...] = ()
    located = [locate_recording(now, item) for item in recordings]
    found = [place for place in located if place is not None]
    if len(found) == len(recordings):
        reasons = [_lead_similarities(place, query) for place in found]
        order = [(bool(leads), recording_cosine(place, query)) for leads, place in zip(reasons, found, strict=True)]
        best = max(range(len(found)), key=order.__getitem__)
        chosen, why = recordings[best], reasons[best]
    return Neighbor(
        patient_id=facts["patient_id"],
        similarity=cosine,
        distance=1 - cosine,
        record_id=chosen["record_id"],
        labels=tuple(facts["labels"]),
        age=facts["age"],
        sex=facts["sex"],
        site=facts["site"],
        recordings=len(recordings),
        why=why,
    )


def _lead_similarities(place: tuple[Archive, int], query: Query) -> tuple[LeadSimilarity, ...]:
    archive, row = place
    held, present = archive.lead_vectors(np.array([row]))
    shared = np.flatnonzero(present[0] & query.leads.any(axis=1))
    cosines = np.einsum("le,le->l", held[0][shared], query.leads[shared])
    order = np.argsort(-cosines, kind="stable")
    return tuple(LeadSimilarity(archive.manifest.leads[shared[at]], float(cosines[at])) for at in order)
