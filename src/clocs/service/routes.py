"""Endpoints of the API: the service itself, views of an upload, and searches.

Responses are sent as they are built. The response models only serve the OpenAPI document and the tests.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from clocs import __version__
from clocs.service import schemas
from clocs.service.metrics import MEDIA_TYPE
from clocs.service.problems import ProblemError
from clocs.service.replies import (
    classes_reply,
    map_reply,
    me_reply,
    measurements_reply,
    model_reply,
    neighbor_preview,
    preview_json,
)
from clocs.service.rights import identity_of
from clocs.service.routing import (
    MAX_VALUE_LENGTH,
    PLAIN,
    UPLOADS,
    State,
    Value,
    absent,
    api_router,
    check_classifier,
    json_response,
)
from clocs.service.schemas import NO_TOKEN, UPLOAD_BODY, problems
from clocs.service.searching import Search, archive_of, search
from clocs.service.uploads import receive_upload
from clocs.service.verdicts import Verdict

open_routes = APIRouter(tags=["service"])
routes = api_router()


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


@open_routes.get("/metrics", response_class=Response, responses=problems(401, 403))
async def metrics(state: State) -> Response:
    """Return counts and durations in the text format of Prometheus."""
    return Response(state.metrics.text(), media_type=MEDIA_TYPE)


@routes.get("/me", responses=PLAIN, response_model=schemas.Me)
async def me(request: Request) -> Response:
    """Return the rights of the request, and the user whom a proxy named."""
    return json_response(me_reply(identity_of(request.scope)))


@routes.get("/model", responses=PLAIN, response_model=schemas.ModelInfo)
async def model(state: State) -> Response:
    """Describe the encoder, its classes with validation results, its model card and the index."""
    return json_response(await state.threads.run(model_reply, state.loaded))


@routes.post("/preview", responses=UPLOADS, response_model=schemas.Preview, openapi_extra=UPLOAD_BODY)
async def preview(request: Request, state: State) -> Response:
    """Return the recording of a file for drawing, at most its first minute. Every file is written to the audit log."""
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        parsed = await state.pool.beginning(upload)
        body = await state.threads.run(preview_json, parsed.recording, parsed.seconds)
        await state.audit(request.scope, "preview", upload_sha256=upload.sha256)
    return Response(body, media_type="application/json")


@routes.post("/measure", responses=UPLOADS, response_model=schemas.MeasurementsResponse, openapi_extra=UPLOAD_BODY)
async def measure(request: Request, state: State) -> Response:
    """Measure heart rate, intervals and axes from all leads together, with the median beat and its marks."""
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        reply = await state.threads.run(measurements_reply, recording)
    return json_response(reply)


@routes.post(
    "/classify",
    responses=UPLOADS | problems(404),
    response_model=schemas.ClassificationResponse,
    openapi_extra=UPLOAD_BODY,
)
async def classify(request: Request, state: State, classifier: Value = None) -> Response:
    """Estimate the probability of each class, with validation results of similar probabilities."""
    encoder = state.loaded.encoder
    check_classifier(encoder, classifier)
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        found = await state.threads.run(encoder.classify, recording, classifier=classifier or None)
    return json_response(classes_reply(found, state.remember(request.scope, found)))


@routes.post("/verdicts", responses=PLAIN, response_model=schemas.VerdictSaved)
async def save_verdict(
    state: State,
    request_id: Annotated[str, Query(alias="request", max_length=32, description="Id of the request for classes.")],
    name: Annotated[str, Query(alias="class", max_length=MAX_VALUE_LENGTH, description="Class to report on.")],
    verdict: Annotated[Verdict, Query(description="Whether the patient has it, as the user judges.")],
) -> Response:
    """Save the user's verdict on a class: a line of a local file, without signal or identity."""
    if not await state.threads.run(state.verdicts.write, request_id, name, verdict):
        raise absent("Unknown request or class. Results can be reported on while the service runs. Classify again.")
    return json_response(schemas.VerdictSaved(request_id=request_id))


@routes.post(
    "/similar", responses=UPLOADS | problems(404), response_model=schemas.SimilarResponse, openapi_extra=UPLOAD_BODY
)
async def similar(request: Request, state: State, options: Search) -> Response:
    """Find the patients of the index most similar to the recording. Every search is written to the audit log."""
    archive_of(state)
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        reply = await search(state, request, recording, options, upload_sha256=upload.sha256)
    return json_response(reply)


@routes.get("/neighbours/{handle}/preview", responses=PLAIN, response_model=schemas.Preview)
async def preview_neighbor(handle: str, request: Request, state: State) -> Response:
    """Return the most similar recording of a neighbor for drawing. Every request is written to the audit log."""
    archive = archive_of(state)
    record_id = state.handles.record(handle)
    if record_id is None:
        raise _unknown_handle()
    async with state.limiter.work():
        body = await state.threads.run(neighbor_preview, archive, record_id, state.settings.limits.shown_seconds)
        if body is None:
            raise _unknown_handle()
        await state.audit(request.scope, "neighbour-preview", handles=[handle], records=[record_id])
    return Response(body, media_type="application/json")


@routes.get("/map", responses=PLAIN, response_model=schemas.MapResponse)
async def patients_map(state: State) -> Response:
    """Return a two-dimensional map of the index's patients."""
    archive = archive_of(state)
    async with state.limiter.work():
        found = await state.threads.run(lambda: archive.map)
        if found.plane is None:
            raise absent("The index has too few patients for a map.")
        reply = await state.threads.run(map_reply, found, found.plane)
    return json_response(reply)


def _unknown_handle() -> ProblemError:
    return ProblemError(
        404,
        "unknown-handle",
        "Unknown neighbour handle",
        "The handle is unknown or has expired: handles are valid while the service runs and the patient is in the "
        "index. Search again.",
    )
