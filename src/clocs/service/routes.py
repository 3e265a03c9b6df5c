"""Endpoints of the API.

Responses are sent as they are built. The response models only serve the OpenAPI document and the tests.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from clocs import __version__
from clocs.core.errors import OptionError
from clocs.drawing.print_sheet import MAX_PAGES, PAGE_SECONDS, Paper
from clocs.inference.fhir import report_to_fhir
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.report import make_report
from clocs.service import schemas
from clocs.service.archive_view import ArchiveView
from clocs.service.metrics import MEDIA_TYPE
from clocs.service.parsing.messages import SheetRequest
from clocs.service.printing import sheet_text
from clocs.service.privacy import age_range
from clocs.service.problems import REQUEST_ID, ProblemError
from clocs.service.replies import (
    classes_reply,
    embeddings_reply,
    map_reply,
    model_reply,
    neighbor_preview,
    preview_json,
    similar_reply,
)
from clocs.service.schemas import NO_TOKEN, UPLOAD_BODY, problems, upload_body
from clocs.service.settings import MAX_SHOWN_SECONDS
from clocs.service.state import ServiceState
from clocs.service.uploads import receive_upload
from clocs.similarity.index.filters import Filter, parse_columns

MAX_NEIGHBORS: Final = 100
MAX_VALUE_LENGTH: Final = 200
MAX_CONDITIONS: Final = 20
MAX_AGE: Final = 200.0
"""Maximum age in years."""
UPLOADS: Final = problems(400, 401, 403, 408, 413, 415, 421, 422, 500, 501, 503, 504)
PLAIN: Final = problems(401, 403, 404, 421, 422, 500, 503)
FHIR: Final = "application/fhir+json"
MAX_PRINTED_SECONDS: Final = MAX_PAGES * PAGE_SECONDS
FIGURES: Final = {"png": "image/png", "pdf": "application/pdf"}


async def reject_unknown_options(request: Request) -> None:
    """Reject unknown query options, because a misspelled filter would return all patients."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    if any(name not in known for name in request.query_params):
        raise OptionError(f"Unknown query option. Available: {', '.join(known) or 'none'}.")


open_routes = APIRouter(tags=["service"])
routes = APIRouter(prefix="/api/v1", tags=["ECG"], dependencies=[Depends(reject_unknown_options)])


async def state_of(request: Request) -> ServiceState:
    """Return the state of the service."""
    found: ServiceState = request.app.state.service
    return found


State = Annotated[ServiceState, Depends(state_of)]
AnyLead = Annotated[bool, Query(description="Also use leads that the encoder was not trained on.")]
Value = Annotated[str | None, Query(max_length=MAX_VALUE_LENGTH)]
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


@open_routes.head("/healthz", include_in_schema=False)
@open_routes.get("/healthz", openapi_extra=NO_TOKEN)
async def health() -> schemas.Health:
    """Report that the service is running."""
    return schemas.Health(status="ok", version=__version__)


@open_routes.head("/readyz", include_in_schema=False)
@open_routes.get("/readyz", responses=problems(503), openapi_extra=NO_TOKEN)
async def ready(state: State) -> schemas.Ready:
    """Report that the service can parse uploads, and how its parsing processes are confined."""
    if not state.pool.pids:
        raise ProblemError(503, "not-ready", "The service is not ready", "The parsing processes are starting.")
    return schemas.Ready(status="ok", version=__version__, confinement=state.loaded.confinement.level)


@open_routes.get("/metrics", response_class=Response, responses=problems(401))
async def metrics(state: State) -> Response:
    """Return counts and durations in the text format of Prometheus."""
    return Response(state.metrics.text(), media_type=MEDIA_TYPE)


@routes.get("/model", responses=PLAIN, response_model=schemas.ModelInfo)
async def model(state: State) -> Response:
    """Describe the encoder, its classes with validation results, its model card and the index."""
    return _json(await state.threads.run(model_reply, state.loaded))


@routes.post("/preview", responses=UPLOADS, response_model=schemas.Preview, openapi_extra=UPLOAD_BODY)
async def preview(request: Request, state: State) -> Response:
    """Return the recording of a file for drawing, at most its first minute."""
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        parsed = await state.pool.beginning(upload)
        body = await state.threads.run(preview_json, parsed.recording, parsed.seconds)
    return Response(body, media_type="application/json")


@routes.post(
    "/classify",
    responses=UPLOADS | problems(404),
    response_model=schemas.ClassificationResponse,
    openapi_extra=UPLOAD_BODY,
)
async def classify(request: Request, state: State, classifier: Value = None) -> Response:
    """Estimate the probability of each class, with validation results of similar probabilities."""
    encoder = state.loaded.encoder
    _check_classifier(encoder, classifier)
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        found = await state.threads.run(encoder.classify, recording, classifier=classifier or None)
    return _json(classes_reply(found))


@routes.post(
    "/similar", responses=UPLOADS | problems(404), response_model=schemas.SimilarResponse, openapi_extra=UPLOAD_BODY
)
async def similar(
    request: Request,
    state: State,
    k: Annotated[int, Query(ge=1, le=MAX_NEIGHBORS, description="Number of patients.")] = 10,
    label: Value = None,
    sex: Literal["female", "male", ""] | None = None,
    age_from: Years = None,
    age_to: Years = None,
    site: Value = None,
    where: Conditions = None,
    any_lead: AnyLead = False,
) -> Response:
    """Find the patients of the index most similar to the recording. Every search is written to the audit log."""
    archive = _archive(state)
    conditions = parse_columns(where or [])
    wanted = Filter(site or None, age_range(age_from, age_to), sex or None, label or None, conditions)
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        found = await state.threads.run(archive.similar, recording, k, wanted, any_lead)
        reply = similar_reply(found, state.handles, state.settings.show_ids)
        await state.threads.run(
            state.loaded.audit.write,
            request_id=request.scope[REQUEST_ID],
            endpoint="similar",
            k=k,
            filters={
                "label": label,
                "sex": sex,
                "age_from": age_from,
                "age_to": age_to,
                "site": site,
                "where": conditions,
            },
            upload_sha256=upload.sha256,
            handles=[neighbor.handle for neighbor in reply.neighbours],
            records=[item.neighbor.record_id for item in found.found],
        )
    state.metrics.searches.inc()
    return _json(reply)


@routes.get("/neighbours/{handle}/preview", responses=PLAIN, response_model=schemas.Preview)
async def preview_neighbor(handle: str, request: Request, state: State) -> Response:
    """Return the most similar recording of a neighbour for drawing. Every request is written to the audit log."""
    archive = _archive(state)
    record_id = state.handles.record(handle)
    if record_id is None:
        raise _unknown_handle()
    async with state.limiter.work():
        body = await state.threads.run(neighbor_preview, archive, record_id, state.settings.limits.shown_seconds)
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


@routes.get("/map", responses=PLAIN, response_model=schemas.MapResponse)
async def patients_map(state: State) -> Response:
    """Return a two-dimensional map of the index's patients."""
    archive = _archive(state)
    async with state.limiter.work():
        found = await state.threads.run(lambda: archive.map)
        if found.plane is None:
            raise _absent("The index has too few patients for a map.")
        reply = await state.threads.run(map_reply, found, found.plane)
    return _json(reply)


@routes.post("/embed", responses=UPLOADS, response_model=schemas.EmbeddingResponse, openapi_extra=UPLOAD_BODY)
async def embed(request: Request, state: State, any_lead: AnyLead = False) -> Response:
    """Return the embeddings of a recording, if the service was started with --allow-embeddings."""
    if not state.settings.allow_embeddings:
        raise ProblemError(
            403,
            "embeddings-switched-off",
            "Embeddings are disabled",
            "Embeddings are personal data. The operator can enable them with: clocs serve --allow-embeddings.",
        )
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
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
    form: Annotated[Literal["png", "pdf"], Query(alias="format", description="Format of the picture.")] = "png",
    seconds: Annotated[float, Query(gt=0, le=MAX_SHOWN_SECONDS, description="Duration to plot, in seconds.")] = 10.0,
) -> Response:
    """Plot the recording on ECG paper at 25 mm/s and 10 mm/mV."""
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        drawn = await state.pool.drawing(upload, form, seconds)
    headers = {"content-disposition": f'attachment; filename="ecg.{form}"'}
    return Response(drawn, media_type=FIGURES[form], headers=headers)


@routes.post(
    "/print",
    responses=UPLOADS | problems(404) | {200: {"content": {"application/pdf": {}}, "description": "The sheets"}},
    openapi_extra=upload_body("identifier"),
    response_class=Response,
)
async def print_sheets(
    request: Request,
    state: State,
    paper: Annotated[Paper, Query(description="Paper in landscape.")] = "a4",
    start: Annotated[float, Query(ge=0, description="First second to print.")] = 0.0,
    seconds: Annotated[float, Query(gt=0, le=MAX_PRINTED_SECONDS, description="Duration to print.")] = PAGE_SECONDS,
    classifier: Value = None,
) -> Response:
    """Return sheets to print at 25 mm/s and 10 mm/mV, with measurements and classes.

    The text field ``identifier`` is printed on every sheet. It is neither logged nor stored.
    """
    encoder = state.loaded.encoder
    _check_classifier(encoder, classifier)
    fields = ("identifier",)
    async with receive_upload(request, state.settings.limits, fields) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        if start >= recording.seconds:
            raise OptionError(f"The recording ends after {recording.seconds:g} s. Use an earlier start.")
        report = await state.threads.run(make_report, encoder, recording, classifier=classifier or None)
        text = sheet_text(report, recording, upload.fields.get("identifier", ""))
        sheet = SheetRequest(paper=paper, start=start, seconds=seconds, text=text)
        drawn = await state.pool.sheets(upload, sheet)
    headers = {"content-disposition": 'attachment; filename="ecg.pdf"'}
    return Response(drawn, media_type=FIGURES["pdf"], headers=headers)


@routes.post(
    "/fhir",
    responses=UPLOADS | problems(404) | {200: {"content": {FHIR: {}}, "description": "The bundle"}},
    openapi_extra=upload_body("identifier", "order"),
    response_class=Response,
)
async def fhir(request: Request, state: State, classifier: Value = None) -> Response:
    """Return measurements and classes as a FHIR R4 bundle of a preliminary DiagnosticReport.

    The text field ``identifier`` becomes ``subject.identifier``, and ``order`` becomes ``basedOn.identifier``. They are
    neither logged nor stored.
    """
    encoder = state.loaded.encoder
    _check_classifier(encoder, classifier)
    fields = ("identifier", "order")
    async with receive_upload(request, state.settings.limits, fields) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        report = await state.threads.run(make_report, encoder, recording, classifier=classifier or None)
    return Response(json.dumps(report_to_fhir(report, **upload.fields)), media_type=FHIR)


def _check_classifier(encoder: PretrainedEncoder, classifier: str | None) -> None:
    """Raise an error if the encoder has no classifier, or none of this name."""
    if not encoder.classifiers or (classifier and classifier not in encoder.classifiers):
        raise _absent(f"Unknown classifier. Available: {', '.join(encoder.classifiers) or 'none'}.")


def _json(reply: BaseModel) -> Response:
    """Serialize a response without unset fields, such as ids."""
    return Response(reply.model_dump_json(exclude_unset=True), media_type="application/json")


def _absent(detail: str) -> ProblemError:
    return ProblemError(404, "not-found", "Not found", detail)


def _unknown_handle() -> ProblemError:
    return ProblemError(
        404,
        "unknown-handle",
        "Unknown neighbour handle",
        "The handle is unknown or has expired: handles are valid while the service runs and the patient is in the "
        "index. Search again.",
    )


def _archive(state: ServiceState) -> ArchiveView:
    if state.loaded.archive is None:
        raise _absent("This service was started without an index of patients.")
    return state.loaded.archive
