"""Endpoints that export: embeddings, pictures, sheets to print and FHIR. Each export of an upload or of
a recording of the store is written to the audit log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query, Request, Response

from clocs.core.errors import OptionError
from clocs.core.recording import Recording
from clocs.drawing.print_sheet import MAX_PAGES, PAGE_SECONDS, Paper
from clocs.inference.fhir import report_to_fhir
from clocs.inference.report import Report, make_report
from clocs.service import schemas
from clocs.service.parsing.messages import SheetRequest
from clocs.service.printing import sheet_text
from clocs.service.problems import ProblemError
from clocs.service.replies import embeddings_reply
from clocs.service.routing import PLAIN, UPLOADS, AnyLead, State, Value, api_router, check_classifier, json_response
from clocs.service.schemas import UPLOAD_BODY, fields_body, problems, upload_body
from clocs.service.settings import MAX_SHOWN_SECONDS
from clocs.service.state import ServiceState
from clocs.service.stored_recordings import open_recording, record_of
from clocs.service.uploads import receive_fields, receive_upload

Responses = dict[int | str, dict[str, Any]]
FHIR: Final = "application/fhir+json"
MAX_PRINTED_SECONDS: Final = MAX_PAGES * PAGE_SECONDS
FIGURES: Final = {"png": "image/png", "pdf": "application/pdf"}
FHIR_FIELDS: Final = ("identifier", "order")
FIGURE_RESPONSE: Final[Responses] = {
    200: {"content": {kind: {} for kind in FIGURES.values()}, "description": "The picture"}
}
SHEETS_RESPONSE: Final[Responses] = {200: {"content": {FIGURES["pdf"]: {}}, "description": "The sheets"}}
FHIR_RESPONSE: Final[Responses] = {200: {"content": {FHIR: {}}, "description": "The bundle"}}
Form = Annotated[Literal["png", "pdf"], Query(alias="format", description="Format of the picture.")]
FigureSeconds = Annotated[float, Query(gt=0, le=MAX_SHOWN_SECONDS, description="Duration to plot, in seconds.")]


@dataclass(frozen=True)
class SheetOptions:
    """Paper and range of sheets to print."""

    paper: Paper
    start: float
    seconds: float


def sheet_options(
    paper: Annotated[Paper, Query(description="Paper in landscape.")] = "a4",
    start: Annotated[float, Query(ge=0, description="First second to print.")] = 0.0,
    seconds: Annotated[float, Query(gt=0, le=MAX_PRINTED_SECONDS, description="Duration to print.")] = PAGE_SECONDS,
) -> SheetOptions:
    """Return the options of sheets to print of a query."""
    return SheetOptions(paper, start, seconds)


Sheets = Annotated[SheetOptions, Depends(sheet_options)]

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
    responses=UPLOADS | FIGURE_RESPONSE,
    openapi_extra=UPLOAD_BODY,
    response_class=Response,
)
async def figure(request: Request, state: State, form: Form = "png", seconds: FigureSeconds = 10.0) -> Response:
    """Plot the recording on ECG paper at 25 mm/s and 10 mm/mV."""
    async with receive_upload(request, state.settings.limits) as upload, state.limiter.work():
        drawn = await state.pool.drawing(upload, form, seconds)
        await state.audit(request.scope, "figure", upload_sha256=upload.sha256)
    return _download(drawn, form)


@export_routes.get(
    "/recordings/{handle}/figure", responses=PLAIN | problems(504) | FIGURE_RESPONSE, response_class=Response
)
async def figure_of_recording(
    handle: str, request: Request, state: State, form: Form = "png", seconds: FigureSeconds = 10.0
) -> Response:
    """Plot a recording of the store on ECG paper at 25 mm/s and 10 mm/mV."""
    async with state.limiter.work():
        opened = await open_recording(state, handle, first=seconds)
        drawn = await state.pool.drawing(opened.recording, form, seconds)
        await state.audit(request.scope, "recording-figure", handles=[handle], records=[opened.record_id])
    return _download(drawn, form)


@export_routes.post(
    "/print",
    responses=UPLOADS | problems(404) | SHEETS_RESPONSE,
    openapi_extra=upload_body("identifier"),
    response_class=Response,
)
async def print_sheets(request: Request, state: State, options: Sheets, classifier: Value = None) -> Response:
    """Return sheets to print at 25 mm/s and 10 mm/mV, with measurements and classes.

    The text field ``identifier`` is printed on every sheet. It is neither logged nor stored.
    """
    check_classifier(state.loaded.encoder, classifier)
    async with receive_upload(request, state.settings.limits, ("identifier",)) as upload, state.limiter.work():
        recording = await state.pool.recording(upload, with_time=state.settings.print_times)
        drawn = await _draw_sheets(state, recording, options, classifier, **upload.fields)
        await state.audit(request.scope, "print", upload_sha256=upload.sha256)
    return _download(drawn, "pdf")


@export_routes.post(
    "/recordings/{handle}/print",
    responses=UPLOADS | problems(404) | SHEETS_RESPONSE,
    openapi_extra=fields_body("identifier"),
    response_class=Response,
)
async def print_recording(
    handle: str, request: Request, state: State, options: Sheets, classifier: Value = None
) -> Response:
    """Return sheets of a recording of the store to print, as for an upload."""
    record_of(state, handle)
    check_classifier(state.loaded.encoder, classifier)
    fields = await receive_fields(request, ("identifier",))
    async with state.limiter.work():
        opened = await open_recording(state, handle)
        drawn = await _draw_sheets(state, opened.recording, options, classifier, **fields)
        await state.audit(request.scope, "recording-print", handles=[handle], records=[opened.record_id])
    return _download(drawn, "pdf")


@export_routes.post(
    "/fhir",
    responses=UPLOADS | problems(404) | FHIR_RESPONSE,
    openapi_extra=upload_body("identifier", "order"),
    response_class=Response,
)
async def fhir(request: Request, state: State, classifier: Value = None) -> Response:
    """Return measurements and classes as a FHIR R4 bundle of a preliminary DiagnosticReport.

    The text field ``identifier`` becomes ``subject.identifier``, and ``order`` becomes ``basedOn.identifier``. They are
    neither logged nor stored.
    """
    check_classifier(state.loaded.encoder, classifier)
    async with receive_upload(request, state.settings.limits, FHIR_FIELDS) as upload, state.limiter.work():
        recording = await state.pool.recording(upload)
        report = await _report(state, recording, classifier)
        await state.audit(request.scope, "fhir", upload_sha256=upload.sha256)
    return Response(json.dumps(report_to_fhir(report, **upload.fields)), media_type=FHIR)


@export_routes.post(
    "/recordings/{handle}/fhir",
    responses=UPLOADS | problems(404) | FHIR_RESPONSE,
    openapi_extra=fields_body(*FHIR_FIELDS),
    response_class=Response,
)
async def fhir_of_recording(handle: str, request: Request, state: State, classifier: Value = None) -> Response:
    """Return measurements and classes of a recording of the store as a FHIR R4 bundle, as for an upload."""
    record_of(state, handle)
    check_classifier(state.loaded.encoder, classifier)
    fields = await receive_fields(request, FHIR_FIELDS)
    async with state.limiter.work():
        opened = await open_recording(state, handle)
        report = await _report(state, opened.recording, classifier)
        await state.audit(request.scope, "recording-fhir", handles=[handle], records=[opened.record_id])
    return Response(json.dumps(report_to_fhir(report, **fields)), media_type=FHIR)


async def _report(state: ServiceState, recording: Recording, classifier: str | None) -> Report:
    return await state.threads.run(make_report, state.loaded.encoder, recording, classifier=classifier or None)


async def _draw_sheets(
    state: ServiceState, recording: Recording, options: SheetOptions, classifier: str | None, identifier: str = ""
) -> bytes:
    if options.start >= recording.seconds:
        raise OptionError(f"The recording ends after {recording.seconds:g} s. Use an earlier start.")
    report = await _report(state, recording, classifier)
    text = sheet_text(report, recording, identifier, with_time=state.settings.print_times)
    sheet = SheetRequest(paper=options.paper, start=options.start, seconds=options.seconds, text=text)
    return await state.pool.sheets(recording, sheet)


def _download(drawn: bytes, form: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="ecg.{form}"'}
    return Response(drawn, media_type=FIGURES[form], headers=headers)
