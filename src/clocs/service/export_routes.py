"""Endpoints that export: embeddings, pictures, sheets to print and FHIR. Each export is written to the audit log."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

from fastapi import Query, Request, Response

from clocs.core.errors import OptionError
from clocs.drawing.print_sheet import MAX_PAGES, PAGE_SECONDS, Paper
from clocs.inference.fhir import report_to_fhir
from clocs.inference.report import make_report
from clocs.service import schemas
from clocs.service.parsing.messages import SheetRequest
from clocs.service.printing import sheet_text
from clocs.service.problems import ProblemError
from clocs.service.replies import embeddings_reply
from clocs.service.routing import UPLOADS, AnyLead, State, Value, api_router, check_classifier, json_response
from clocs.service.schemas import UPLOAD_BODY, problems, upload_body
from clocs.service.settings import MAX_SHOWN_SECONDS
from clocs.service.uploads import receive_upload

FHIR: Final = "application/fhir+json"
MAX_PRINTED_SECONDS: Final = MAX_PAGES * PAGE_SECONDS
FIGURES: Final = {"png": "image/png", "pdf": "application/pdf"}

export_routes = api_router()


@export_routes.post("/embed", responses=UPLOADS, response_model=schemas.EmbeddingResponse, openapi_extra=UPLOAD_BODY)
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
        await state.audit(request.scope, "embed", upload_sha256=upload.sha256)
    return json_response(reply)


@export_routes.post(
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
        await state.audit(request.scope, "figure", upload_sha256=upload.sha256)
    headers = {"content-disposition": f'attachment; filename="ecg.{form}"'}
    return Response(drawn, media_type=FIGURES[form], headers=headers)


@export_routes.post(
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
    check_classifier(encoder, classifier)
    fields = ("identifier",)
    async with receive_upload(request, state.settings.limits, fields) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        if start >= recording.seconds:
            raise OptionError(f"The recording ends after {recording.seconds:g} s. Use an earlier start.")
        report = await state.threads.run(make_report, encoder, recording, classifier=classifier or None)
        text = sheet_text(report, recording, upload.fields.get("identifier", ""))
        sheet = SheetRequest(paper=paper, start=start, seconds=seconds, text=text)
        drawn = await state.pool.sheets(upload, sheet)
        await state.audit(request.scope, "print", upload_sha256=upload.sha256)
    headers = {"content-disposition": 'attachment; filename="ecg.pdf"'}
    return Response(drawn, media_type=FIGURES["pdf"], headers=headers)


@export_routes.post(
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
    check_classifier(encoder, classifier)
    fields = ("identifier", "order")
    async with receive_upload(request, state.settings.limits, fields) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        report = await state.threads.run(make_report, encoder, recording, classifier=classifier or None)
        await state.audit(request.scope, "fhir", upload_sha256=upload.sha256)
    return Response(json.dumps(report_to_fhir(report, **upload.fields)), media_type=FHIR)
