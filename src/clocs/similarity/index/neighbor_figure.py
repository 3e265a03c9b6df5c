"""Picture of a query above the patients that a search found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clocs.drawing.neighbors import draw_neighbors
from clocs.similarity.index.neighbors import Neighbor, SimilarPatients
from clocs.similarity.index.patient_index import PatientIndex

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
