"""Results of a search: similar patients, the similarity of single leads, and a picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clocs.core.recording import Recording
from clocs.drawing.neighbors import draw_neighbors
from clocs.signals.resampling import resample
from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Vectors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clocs.similarity.index.patient_index import PatientIndex

SAME_RECORDING_COSINE: Final = 1 - 1e-6
"""Minimum cosine of two embeddings of the same recording."""
SIMILAR_RECORDING_COSINE: Final = 0.9
"""Minimum cosine of two embeddings whose recordings are compared by their signals."""
SAME_SIGNAL_CORRELATION: Final = 0.99
"""Minimum correlation of two signals of the same ECG."""


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
class Query:
    """An embedded query."""

    record_id: str
    patient_id: str
    """Patient id; empty if unknown."""
    vector: Vectors
    """Vector of the recording, unit length, shape (E,)."""
    leads: Vectors
    """Vectors of single leads, unit length, shape (L, E); zeros if a lead is absent."""
    recording: Recording | None
    """The recording; None if it is part of the index."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SimilarPatients:
    """The patients most similar to a query, the most similar first."""

    query: Query
    neighbors: tuple[Neighbor, ...]
    notes: tuple[str, ...]
    """Corrections of the query and limitations of the answer, one sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-compatible dictionary, without vectors and signals."""
        asked = {"record_id": self.query.record_id, "patient_id": self.query.patient_id}
        return {"query": asked, "neighbours": [asdict(item) for item in self.neighbors], "notes": list(self.notes)}


def describe_neighbor(now: Snapshot, query: Query, row: int, cosine: float) -> Neighbor:
    """Return what the index knows about a patient that a search found."""
    facts = now.patient_info(row)
    recordings = facts["recordings"]
    chosen = recordings[0]
    why: tuple[LeadSimilarity, ...] = ()
    located = [_locate(now, item) for item in recordings]
    found = [place for place in located if place is not None]
    if len(found) == len(recordings):
        best = max(range(len(found)), key=lambda at: _cosine(found[at], query)) if len(found) > 1 else 0
        chosen, why = recordings[best], _lead_similarities(found[best], query)
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
    """Return True if the query is one of the patient's recordings. Several recordings are compared only if their
    archive is available."""
    return any(likeness >= SAME_RECORDING_COSINE for _, likeness in recording_cosines(now, query, row, cosine))


def recording_cosines(now: Snapshot, query: Query, row: int, cosine: float) -> list[tuple[str, float]]:
    """Return the ids of a patient's recordings with their cosines to the query; only those whose archive is available
    if there are several."""
    recordings = now.patient_info(row)["recordings"]
    if len(recordings) == 1:
        return [(recordings[0]["record_id"], cosine)]
    located = [(item["record_id"], _locate(now, item)) for item in recordings]
    return [(record_id, _cosine(place, query)) for record_id, place in located if place is not None]


def is_same_signal(query: Recording, held: Recording) -> bool:
    """Return True if two recordings are the same ECG, whatever their formats, steps and sampling rates.

    Leads that both have must be correlated by at least ``SAME_SIGNAL_CORRELATION``, from the first sample on.
    """
    shared = [lead for lead in query.leads if lead in held.leads]
    if not shared or abs(query.seconds - held.seconds) > 0.1:
        return False
    signals = (np.nan_to_num(recording.select(shared).physical()) for recording in (query, held))
    one, other = next(signals), resample(next(signals), held.sampling_rate, query.sampling_rate)
    length = min(one.shape[1], other.shape[1])
    one, other = (values[:, :length] - values[:, :length].mean(axis=1, keepdims=True) for values in (one, other))
    sizes = np.sqrt(np.square(one).sum(axis=1) * np.square(other).sum(axis=1))
    return bool(((one * other).sum(axis=1) >= SAME_SIGNAL_CORRELATION * np.maximum(sizes, 1e-9)).all())


def few_matches_note(found: int) -> str:
    """Return the note for a search that found fewer patients than requested."""
    return "Only 1 patient of the index matches." if found == 1 else f"Only {found} patients of the index match."


def _locate(now: Snapshot, recording: dict[str, Any]) -> tuple[Archive, int] | None:
    return now.locate(recording["archive"], recording["record_id"], recording["row"])


def _cosine(place: tuple[Archive, int], query: Query) -> float:
    archive, row = place
    return float(archive.vectors(np.array([row]))[0] @ query.vector)


def _lead_similarities(place: tuple[Archive, int], query: Query) -> tuple[LeadSimilarity, ...]:
    archive, row = place
    held, present = archive.lead_vectors(np.array([row]))
    shared = np.flatnonzero(present[0] & query.leads.any(axis=1))
    cosines = np.einsum("le,le->l", held[0][shared], query.leads[shared])
    order = np.argsort(-cosines, kind="stable")
    return tuple(LeadSimilarity(archive.manifest.leads[shared[at]], float(cosines[at])) for at in order)


def draw_similar(
    index: PatientIndex, found: SimilarPatients, *, leads: tuple[str, ...] | None = None, seconds: float = 8.0
) -> Figure:
    """Draw the query above its neighbors, with each patient's most similar recording.

    Args:
        index: The index that was searched.
        found: Result of the search.
        leads: Leads to draw. Default: the leads that all recordings share.
        seconds: Duration to draw, in seconds.

    Returns:
        A matplotlib figure.
    """
    query = found.query.recording or index.recording(found.query.record_id)
    recordings = [query, *(index.recording(item.record_id) for item in found.neighbors)]
    captions = ["query\n" + _describe_patient(query.labels, query.age, query.sex)]
    captions += [_caption(rank, item) for rank, item in enumerate(found.neighbors, 1)]
    title = f"Patients like {found.query.record_id or 'this one'}"
    return draw_neighbors(recordings, captions, leads=leads, seconds=seconds, title=title)


def _caption(rank: int, item: Neighbor) -> str:
    lead_similarities = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    first = f"{rank}.  {item.record_id}   distance {item.distance:.3f}" + (
        f"   leads: {lead_similarities}" if lead_similarities else ""
    )
    return f"{first}\n{_describe_patient(item.labels, item.age, item.sex)}"


def _describe_patient(labels: tuple[str, ...], age: float | None, sex: str | None) -> str:
    known = (", ".join(labels), "" if age is None else f"{age:g} y", sex or "")
    return "   ".join(part for part in known if part)
