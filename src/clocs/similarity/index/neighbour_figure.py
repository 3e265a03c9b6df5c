"""The figure of a search: the query and its neighbours, from the stores behind the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clocs.drawing.neighbours import draw_neighbours
from clocs.similarity.index.neighbours import Neighbour, Similar
from clocs.similarity.index.search import PatientIndex

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_similar(
    index: PatientIndex, found: Similar, *, leads: tuple[str, ...] | None = None, seconds: float = 8.0
) -> Figure:
    """Draw the query above its neighbours; of each patient, the recording most like the query."""
    query = found.query.recording or index.recording(found.query.record_id)
    recordings = [query, *(index.recording(item.record_id) for item in found.neighbours)]
    captions = ["query\n" + _words(query.labels, query.age, query.sex)]
    captions += [_caption(place, item) for place, item in enumerate(found.neighbours, 1)]
    title = f"Patients like {found.query.record_id or 'this one'}"
    return draw_neighbours(recordings, captions, leads=leads, seconds=seconds, title=title)


def _caption(place: int, item: Neighbour) -> str:
    alike = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    first = f"{place}.  {item.record_id}   distance {item.distance:.3f}" + (f"   leads: {alike}" if alike else "")
    return f"{first}\n{_words(item.labels, item.age, item.sex)}"


def _words(labels: tuple[str, ...], age: float | None, sex: str | None) -> str:
    known = (", ".join(labels), "" if age is None else f"{age:g} y", sex or "")
    return "   ".join(part for part in known if part)
