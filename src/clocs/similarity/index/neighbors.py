"""Neighbours: who was found near a query, which leads made them alike, and a picture of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clocs.core.recording import Recording
from clocs.drawing.neighbors import draw_neighbors
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Vectors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clocs.similarity.index.search import PatientIndex

SAME_RECORDING_COSINE: Final = 1 - 1e-6
"""Cosine from which two embeddings are of one recording."""


@dataclass(frozen=True)
class LeadSimilarity:
    """How alike one lead of two recordings is."""

    lead: str
    similarity: float
    """Cosine."""


@dataclass(frozen=True)
class Neighbor:
    """A patient near the query."""

    patient_id: str
    similarity: float
    """Cosine of the query's vector and the patient's."""
    distance: float
    """1 - similarity."""
    record_id: str
    """Of the patient's recordings, the one most like the query; the first, where the archive is not in its place."""
    labels: tuple[str, ...]
    """Of all recordings of the patient."""
    age: float | None
    sex: str | None
    site: str
    recordings: int
    why: tuple[LeadSimilarity, ...]
    """Leads that the query and that recording share, the most alike first."""


@dataclass(frozen=True, eq=False)
class Query:
    """What was asked with."""

    record_id: str
    patient_id: str
    """Empty: unknown."""
    vector: Vectors
    """(E,), unit length."""
    leads: Vectors
    """(L, E), unit length; zeros where a lead is absent."""
    recording: Recording | None
    """None: it is in a store, under its record id."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SimilarPatients:
    """The patients nearest to a query, the nearest first."""

    query: Query
    neighbors: tuple[Neighbor, ...]
    notes: tuple[str, ...]
    """What was corrected in the query, and what could not be said; a sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Without vectors and signals."""
        asked = {"record_id": self.query.record_id, "patient_id": self.query.patient_id}
        return {"query": asked, "neighbours": [asdict(item) for item in self.neighbors], "notes": list(self.notes)}


def describe_neighbor(now: Snapshot, query: Query, row: int, cosine: float) -> Neighbor:
    """What is known of a patient that a search found."""
    facts = now.patient_info(row)
    recordings = facts["recordings"]
    chosen = recordings[0]
    why: tuple[LeadSimilarity, ...] = ()
    if all(now.archive(item["archive"]) is not None for item in recordings):
        if len(recordings) > 1:
            chosen = max(recordings, key=lambda item: _cosine(now, item, query))
        why = _lead_similarities(now, query, chosen)
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


def has_recording(now: Snapshot, query: Query, row: int, cosine: float) -> bool:
    """Whether the query is a recording of this patient; of several, only as long as their archive is there."""
    recordings = now.patient_info(row)["recordings"]
    if len(recordings) == 1:
        return cosine >= SAME_RECORDING_COSINE
    there = [item for item in recordings if now.archive(item["archive"]) is not None]
    return any(_cosine(now, item, query) >= SAME_RECORDING_COSINE for item in there)


def few_matches_note(found: int) -> str:
    """The note on a search that found fewer than it was asked for."""
    return "only 1 patient of the index fits" if found == 1 else f"only {found} patients of the index fit"


def _cosine(now: Snapshot, recording: dict[str, Any], query: Query) -> float:
    archive = now.archive(recording["archive"])
    assert archive is not None
    return float(archive.vectors(np.array([recording["row"]]))[0] @ query.vector)


def _lead_similarities(now: Snapshot, query: Query, recording: dict[str, Any]) -> tuple[LeadSimilarity, ...]:
    archive = now.archive(recording["archive"])
    assert archive is not None
    held, present = archive.lead_vectors(np.array([recording["row"]]))
    shared = np.flatnonzero(present[0] & query.leads.any(axis=1))
    cosines = np.einsum("le,le->l", held[0][shared], query.leads[shared])
    order = np.argsort(-cosines, kind="stable")
    return tuple(LeadSimilarity(archive.manifest.leads[shared[at]], float(cosines[at])) for at in order)


def draw_similar(
    index: PatientIndex, found: SimilarPatients, *, leads: tuple[str, ...] | None = None, seconds: float = 8.0
) -> Figure:
    """Draw the query above its neighbours; of each patient, the recording most like the query."""
    query = found.query.recording or index.recording(found.query.record_id)
    recordings = [query, *(index.recording(item.record_id) for item in found.neighbors)]
    captions = ["query\n" + _describe_patient(query.labels, query.age, query.sex)]
    captions += [_caption(place, item) for place, item in enumerate(found.neighbors, 1)]
    title = f"Patients like {found.query.record_id or 'this one'}"
    return draw_neighbors(recordings, captions, leads=leads, seconds=seconds, title=title)


def _caption(place: int, item: Neighbor) -> str:
    alike = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    first = f"{place}.  {item.record_id}   distance {item.distance:.3f}" + (f"   leads: {alike}" if alike else "")
    return f"{first}\n{_describe_patient(item.labels, item.age, item.sex)}"


def _describe_patient(labels: tuple[str, ...], age: float | None, sex: str | None) -> str:
    known = (", ".join(labels), "" if age is None else f"{age:g} y", sex or "")
    return "   ".join(part for part in known if part)
