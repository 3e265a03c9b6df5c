"""The endpoints: each takes a request apart, has the work done elsewhere, and sends the reply.

Replies are sent as they are made: the response models are for the OpenAPI document, and for the tests.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from clocs import __version__
from clocs.core.errors import OptionError
from clocs.service import schemas
from clocs.service.archive_view import ArchiveView
from clocs.service.metrics import MEDIA_TYPE
from clocs.service.privacy import age_band
from clocs.service.problems import REQUEST_ID, ProblemError
from clocs.service.replies import (
    classes_reply,
    embeddings_reply,
    map_reply,
    model_reply,
    neighbour_preview,
    preview_json,
    similar_reply,
)
from clocs.service.schemas import NO_TOKEN, UPLOAD_BODY, problems
from clocs.service.settings import MOST_SHOWN
from clocs.service.state import ServiceState
from clocs.service.uploads import received
from clocs.similarity.index.filters import Filter

MOST_NEIGHBOURS: Final = 100
LONGEST_VALUE: Final = 200
OLDEST: Final = 200.0
"""Years."""
UPLOADS: Final = problems(400, 401, 403, 408, 413, 415, 421, 422, 500, 501, 503, 504)
PLAIN: Final = problems(401, 403, 404, 421, 422, 500, 503)
FIGURES: Final = {"png": "image/png", "pdf": "application/pdf"}


async def known_options_only(request: Request) -> None:
    """A filter that is misspelled must not be taken for none: everyone would be found."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    if any(name not in known for name in request.query_params):
        raise OptionError(f"an option of this request is unknown; there are: {', '.join(known) or 'none'}")


open_routes = APIRouter(tags=["service"])
routes = APIRouter(prefix="/api/v1", tags=["ECG"], dependencies=[Depends(known_options_only)])


async def state_of(request: Request) -> ServiceState:
    """What the service is made of."""
    found: ServiceState = request.app.state.service
    return found


State = Annotated[ServiceState, Depends(state_of)]
AnyLead = Annotated[bool, Query(description="Take also leads that the encoder was not trained on.")]
Value = Annotated[str | None, Query(max_length=LONGEST_VALUE)]
Years = Annotated[
    float | None,
    Query(ge=0, le=OLDEST, description="Whole years, included: 60 is up to the 61st birthday, 90 and more is one age."),
]


@open_routes.head("/healthz", include_in_schema=False)
@open_routes.get("/healthz", openapi_extra=NO_TOKEN)
async def health() -> schemas.Health:
    """Whether the service runs."""
    return schemas.Health(status="ok", version=__version__)


@open_routes.head("/readyz", include_in_schema=False)
@open_routes.get("/readyz", responses=problems(503), openapi_extra=NO_TOKEN)
async def ready(state: State) -> schemas.Ready:
    """Whether it can parse now, and how its parsing processes are confined."""
    if not state.pool.pids:
        raise ProblemError(503, "not-ready", "The service is not ready", "Its parsing processes are starting.")
    return schemas.Ready(status="ok", version=__version__, confinement=state.loaded.confinement.level)


@open_routes.get("/metrics", response_class=Response, responses=problems(401))
async def metrics(state: State) -> Response:
    """Counts and durations, as Prometheus reads them."""
    return Response(state.metrics.text(), media_type=MEDIA_TYPE)


@routes.get("/model", responses=PLAIN, response_model=schemas.ModelAbout)
async def model(state: State) -> Response:
    """The encoder, its classes with their track record, its card, and the index."""
    return _json(await state.threads.run(model_reply, state.loaded))


@routes.post("/preview", responses=UPLOADS, response_model=schemas.Preview, openapi_extra=UPLOAD_BODY)
async def preview(request: Request, state: State) -> Response:
    """The recording of a file, to draw: at most its first minute."""
    async with received(request, state.settings.limits) as upload, state.gate.work():
        parsed = await state.pool.beginning(upload)
        body = await state.threads.run(preview_json, parsed.recording, parsed.seconds)
    return Response(body, media_type="application/json")


@routes.post(
    "/classify", responses=UPLOADS | problems(404), response_model=schemas.Classified, openapi_extra=UPLOAD_BODY
)
async def classify(request: Request, state: State, classifier: Value = None, any_lead: AnyLead = False) -> Response:
    """How probable each class is, and how often such a probability was right on validation patients."""
    encoder = state.loaded.encoder
    if not encoder.classifiers or (classifier and classifier not in encoder.classifiers):
        raise _absent(f"No such classifier; this encoder has: {', '.join(encoder.classifiers) or 'none'}.")
    async with received(request, state.settings.limits) as upload, state.gate.work():
        recording = await state.pool.recording(upload)
        found = await state.threads.run(encoder.classify, recording, classifier=classifier or None, any_lead=any_lead)
    return _json(classes_reply(found))


@routes.post(
    "/similar", responses=UPLOADS | problems(404), response_model=schemas.SimilarFound, openapi_extra=UPLOAD_BODY
)
async def similar(
    request: Request,
    state: State,
    k: Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS, description="How many patients.")] = 10,
    label: Value = None,
    sex: Literal["female", "male", ""] | None = None,
    age_from: Years = None,
    age_to: Years = None,
    site: Value = None,
    any_lead: AnyLead = False,
) -> Response:
    """The patients of the index most like the one in the file. Every search is written down in the audit log."""
    archive = _archive(state)
    wanted = Filter(site or None, age_band(age_from, age_to), sex or None, label or None)
    async with received(request, state.settings.limits) as upload, state.gate.work():
        recording = await state.pool.recording(upload)
        found = await state.threads.run(archive.similar, recording, k, wanted, any_lead)
        reply = similar_reply(found, state.handles, state.settings.show_ids)
        await state.threads.run(
            state.loaded.audit.write,
            request_id=request.scope[REQUEST_ID],
            endpoint="similar",
            k=k,
            filters={"label": label, "sex": sex, "age_from": age_from, "age_to": age_to, "site": site},
            upload_sha256=upload.sha256,
            handles=[neighbor.handle for neighbor in reply.neighbors],
            records=[item.neighbor.record_id for item in found.found],
        )
    state.metrics.searches.inc()
    return _json(reply)


@routes.get("/neighbours/{handle}/preview", responses=PLAIN, response_model=schemas.Preview)
async def preview_of_neighbour(handle: str, request: Request, state: State) -> Response:
    """A neighbour's recording, the one most like the query, to draw beside it. Written down in the audit log."""
    archive = _archive(state)
    record_id = state.handles.record(handle)
    if record_id is None:
        raise _unknown_handle()
    async with state.gate.work():
        body = await state.threads.run(neighbour_preview, archive, record_id, state.settings.limits.shown_seconds)
        if body is None:
            raise _unknown_handle()
        await state.threads.run(
            state.loaded.audit.write,
            request_id=request.scope[REQUEST_ID],
            endpoint="neighbour-preview",
            handles=[handle],
            records=[record_id],
        )
    return Response(body, media_type="application/json")


@routes.get("/map", responses=PLAIN, response_model=schemas.MapShown)
async def patients_map(state: State) -> Response:
    """Patients of the index in the plane, alike ones near each other."""
    archive = _archive(state)
    async with state.gate.work():
        found = await state.threads.run(lambda: archive.map)
        if found.plane is None:
            raise _absent("The index has too few patients for a map.")
        reply = await state.threads.run(map_reply, found, found.plane)
    return _json(reply)


@routes.post("/embed", responses=UPLOADS, response_model=schemas.Embedded, openapi_extra=UPLOAD_BODY)
async def embed(request: Request, state: State, any_lead: AnyLead = False) -> Response:
    """Embeddings of a recording; only where the service was started with --allow-embeddings."""
    if not state.settings.allow_embeddings:
        raise ProblemError(
            403,
            "embeddings-switched-off",
            "Embeddings are not given out",
            "They are personal data. Who runs the service can allow them: clocs serve --allow-embeddings.",
        )
    async with received(request, state.settings.limits) as upload, state.gate.work():
        recording = await state.pool.recording(upload)
        made = await state.threads.run(state.loaded.encoder.embed, recording, any_lead=any_lead)
        reply = await state.threads.run(embeddings_reply, made)
    return _json(reply)


@routes.post(
    "/figure",
    responses=UPLOADS | {200: {"content": {kind: {} for kind in FIGURES.values()}, "description": "The picture"}},
    openapi_extra=UPLOAD_BODY,
    response_class=Response,
)
async def figure(
    request: Request,
    state: State,
    form: Annotated[Literal["png", "pdf"], Query(alias="format", description="Of the picture.")] = "png",
    seconds: Annotated[float, Query(gt=0, le=MOST_SHOWN, description="How much of the recording.")] = 10.0,
) -> Response:
    """The recording on ECG paper, true to scale: 25 mm/s, 10 mm/mV."""
    async with received(request, state.settings.limits) as upload, state.gate.work():
        drawn = await state.pool.drawing(upload, form, seconds)
    headers = {"content-disposition": f'attachment; filename="ecg.{form}"'}
    return Response(drawn, media_type=FIGURES[form], headers=headers)


def _json(reply: BaseModel) -> Response:
    """Fields that were not set, such as ids, are left out."""
    return Response(reply.model_dump_json(exclude_unset=True), media_type="application/json")


def _absent(detail: str) -> ProblemError:
    return ProblemError(404, "not-found", "There is nothing here", detail)


def _unknown_handle() -> ProblemError:
    return ProblemError(
        404,
        "unknown-handle",
        "This neighbour is no longer known",
        "No neighbour goes by this handle. Handles hold while the service runs and the patient is in the archive: "
        "search again.",
    )


def _archive(state: ServiceState) -> ArchiveView:
    if state.loaded.archive is None:
        raise _absent("This service was started without an index, so there are no patients to compare with.")
    return state.loaded.archive
