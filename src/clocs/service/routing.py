"""Parts that all endpoints share: routers, options, documented problems and replies.

Responses are sent as they are built. The response models only serve the OpenAPI document and the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from clocs.core.errors import OptionError
from clocs.inference.pretrained import PretrainedEncoder
from clocs.service.problems import ProblemError
from clocs.service.schemas import problems
from clocs.service.state import ServiceState

MAX_VALUE_LENGTH: Final = 200
UPLOADS: Final = problems(400, 401, 403, 408, 413, 415, 421, 422, 500, 501, 503, 504)
PLAIN: Final = problems(401, 403, 404, 421, 422, 500, 503)


async def reject_unknown_options(request: Request) -> None:
    """Reject unknown query options, because a misspelled filter would return all patients."""
    known = [field.alias for field in _query_params(request.scope["route"].dependant)]
    if any(name not in known for name in request.query_params):
        raise OptionError(f"Unknown query option. Available: {', '.join(known) or 'none'}.")


def _query_params(dependant: Dependant) -> Iterator[Any]:
    """Iterate over the query options of an endpoint, and of the functions that make its arguments."""
    yield from dependant.query_params
    for part in dependant.dependencies:
        yield from _query_params(part)


def api_router() -> APIRouter:
    """Return a router of the API. The rights of each route are in ``clocs.service.rights.ROUTE_RIGHTS``."""
    return APIRouter(prefix="/api/v1", tags=["ECG"], dependencies=[Depends(reject_unknown_options)])


async def state_of(request: Request) -> ServiceState:
    """Return the state of the service."""
    found: ServiceState = request.app.state.service
    return found


State = Annotated[ServiceState, Depends(state_of)]
AnyLead = Annotated[bool, Query(description="Also use leads that the encoder was not trained on.")]
Value = Annotated[str | None, Query(max_length=MAX_VALUE_LENGTH)]


def json_response(reply: BaseModel) -> Response:
    """Serialize a response without unset fields, such as ids."""
    return Response(reply.model_dump_json(exclude_unset=True), media_type="application/json")


def absent(detail: str) -> ProblemError:
    """Return the refusal of a request for something that the service does not have."""
    return ProblemError(404, "not-found", "Not found", detail)


def check_classifier(encoder: PretrainedEncoder, classifier: str | None) -> None:
    """Raise an error if the encoder has no classifier, or none of this name."""
    if not encoder.classifiers or (classifier and classifier not in encoder.classifiers):
        raise absent(f"Unknown classifier. Available: {', '.join(encoder.classifiers) or 'none'}.")
