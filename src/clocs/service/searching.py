"""Search for similar patients: its options, and the audited search itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query, Request
from pydantic import Field

from clocs.core.recording import Recording
from clocs.service import schemas
from clocs.service.archive_view import ArchiveView
from clocs.service.privacy import age_range
from clocs.service.replies import similar_reply
from clocs.service.routing import MAX_VALUE_LENGTH, AnyLead, Value, absent
from clocs.service.state import ServiceState
from clocs.similarity.index.filters import Filter, parse_columns

MAX_NEIGHBORS: Final = 100
MAX_CONDITIONS: Final = 20
MAX_AGE: Final = 200.0
"""Maximum age in years."""
Conditions = Annotated[
    list[Annotated[str, Field(max_length=MAX_VALUE_LENGTH)]] | None,
    Query(
        max_length=MAX_CONDITIONS,
        description="Condition on an extra column of the index, e.g. device=CS-12. Repeatable; of several values for "
        "one column, one must match. An empty value stands for an absent one.",
    ),
]
Years = Annotated[
    float | None,
    Query(
        ge=0,
        le=MAX_AGE,
        description="Completed years, inclusive: 60 lasts until the 61st birthday; 90 stands for 90 and more.",
    ),
]


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search."""

    k: int
    where: Filter
    any_lead: bool
    audited: dict[str, Any]
    """The filters, as the audit log states them."""


def search_options(
    k: Annotated[int, Query(ge=1, le=MAX_NEIGHBORS, description="Number of patients.")] = 10,
    label: Value = None,
    sex: Literal["female", "male", ""] | None = None,
    age_from: Years = None,
    age_to: Years = None,
    site: Value = None,
    where: Conditions = None,
    any_lead: AnyLead = False,
) -> SearchOptions:
    """Return the search options of a query."""
    conditions = parse_columns(where or [])
    wanted = Filter(site or None, age_range(age_from, age_to), sex or None, label or None, conditions)
    audited = {"label": label, "sex": sex, "age_from": age_from, "age_to": age_to, "site": site, "where": conditions}
    return SearchOptions(k, wanted, any_lead, audited)


Search = Annotated[SearchOptions, Depends(search_options)]


def archive_of(state: ServiceState) -> ArchiveView:
    """Return the index of the service."""
    if state.loaded.archive is None:
        raise absent("This service was started without an index of patients.")
    return state.loaded.archive


async def search(
    state: ServiceState,
    request: Request,
    recording: Recording,
    options: SearchOptions,
    *,
    patient_id: str = "",
    **audited: Any,
) -> schemas.SimilarResponse:
    """Find similar patients, and write who asked for what to the audit log.

    Args:
        state: State of the service, which has an index.
        request: The request.
        recording: The query.
        options: Options of the search.
        patient_id: Patient of the query, who is left out; empty if unknown.
        audited: Further fields of the line of the audit log.
    """
    query = replace(recording, patient_id=patient_id)
    found = await state.threads.run(archive_of(state).similar, query, options.k, options.where, options.any_lead)
    reply = similar_reply(found, state.handles, state.settings.show_ids)
    await state.audit(
        request.scope,
        "similar",
        k=options.k,
        filters=options.audited,
        handles=[neighbor.handle for neighbor in reply.neighbours],
        records=[item.neighbor.record_id for item in found.found],
        **audited,
    )
    state.metrics.searches.inc()
    return reply
