"""Endpoints of the list of recordings. All of them require the right ``list``, and are written to the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from clocs.inference.batch_table import class_probabilities
from clocs.inference.report import Report, make_report
from clocs.measurements.results import NAMES, TITLES
from clocs.service import list_schemas, schemas
from clocs.service.privacy import Handles, coarse_age
from clocs.service.recording_list import PAGE_SIZE, ListedRecording, Order
from clocs.service.replies import classes_reply, measurements_reply, preview_json
from clocs.service.routing import PLAIN, State, Value, api_router, check_classifier, json_response
from clocs.service.searching import Search, archive_of, search
from clocs.service.stored_recordings import open_recording, record_of, recording_list, unknown_recording

MAX_PAGE: Final = 1 << 31
MAX_CLASSES: Final = 3
"""Maximum number of classes of a listed recording."""

list_routes = api_router()


@list_routes.get("/recordings", responses=PLAIN, response_model=list_schemas.RecordingsPage)
async def recordings(
    request: Request,
    state: State,
    page: Annotated[int, Query(ge=1, le=MAX_PAGE, description=f"Page of {PAGE_SIZE} recordings.")] = 1,
    order: Annotated[
        Order, Query(description="Newest first by the time of the recording, or by when it was stored.")
    ] = "acquired",
) -> Response:
    """List the recordings of the store, newest first, with measurements, and classes or why they are withheld."""
    listed = recording_list(state)
    async with state.limiter.work():
        rows = await state.threads.run(listed.page, page, order)
        total = await state.threads.run(len, listed)
        reply = list_schemas.RecordingsPage(
            recordings=[_row(state.recording_handles, row) for row in rows],
            page=page,
            pages=-(-total // PAGE_SIZE),
            total=total,
            shifted=listed.has_shifted_times,
            measurements=MEASUREMENTS,
            notice=schemas.NOTICE,
        )
        await state.audit(request.scope, "recordings", page=page, order=order, records=[row.record_id for row in rows])
    return json_response(reply)


@list_routes.get("/recordings/{handle}/patient", responses=PLAIN, response_model=list_schemas.PatientRecordings)
async def patient_recordings(handle: str, request: Request, state: State) -> Response:
    """List the recordings of the same patient, newest first."""
    record_id = record_of(state, handle)
    async with state.limiter.work():
        rows = await state.threads.run(recording_list(state).of_patient, record_id)
        if not rows:
            raise unknown_recording()
        found = [_row(state.recording_handles, row) for row in rows]
        reply = list_schemas.PatientRecordings(recordings=found, measurements=MEASUREMENTS)
        await state.audit(
            request.scope, "patient-recordings", handles=[handle], records=[row.record_id for row in rows]
        )
    return json_response(reply)


@list_routes.get("/recordings/{handle}/preview", responses=PLAIN, response_model=schemas.Preview)
async def preview_recording(handle: str, request: Request, state: State) -> Response:
    """Return a recording for drawing, at most its first minute."""
    async with state.limiter.work():
        opened = await open_recording(state, handle, first=state.settings.limits.shown_seconds)
        body = await state.threads.run(preview_json, opened.recording, opened.seconds)
        await state.audit(request.scope, "recording-preview", handles=[handle], records=[opened.record_id])
    return Response(body, media_type="application/json")


@list_routes.get("/recordings/{handle}/measure", responses=PLAIN, response_model=schemas.MeasurementsResponse)
async def measure_recording(handle: str, request: Request, state: State) -> Response:
    """Measure a recording of the store, with normal ranges of adults and the median beat."""
    async with state.limiter.work():
        opened = await open_recording(state, handle)
        reply = await state.threads.run(measurements_reply, opened.recording)
        await state.audit(request.scope, "recording-measure", handles=[handle], records=[opened.record_id])
    return json_response(reply)


@list_routes.get("/recordings/{handle}/report", responses=PLAIN, response_model=list_schemas.RecordingReport)
async def report_recording(handle: str, request: Request, state: State, classifier: Value = None) -> Response:
    """Measure and classify a recording of the store."""
    encoder = state.loaded.encoder
    record_of(state, handle)
    check_classifier(encoder, classifier)
    async with state.limiter.work():
        opened = await open_recording(state, handle)
        made = await state.threads.run(make_report, encoder, opened.recording, classifier=classifier or None)
        await state.audit(request.scope, "recording-report", handles=[handle], records=[opened.record_id])
    request_id = state.remember(request.scope, made.classification) if made.classification else ""
    return json_response(_report_reply(made, request_id))


@list_routes.get("/recordings/{handle}/similar", responses=PLAIN, response_model=schemas.SimilarResponse)
async def similar_to_recording(handle: str, request: Request, state: State, options: Search) -> Response:
    """Find the patients of the index most similar to a recording of the store, without its own patient."""
    archive_of(state)
    record_of(state, handle)
    async with state.limiter.work():
        opened = await open_recording(state, handle)
        patient = await state.threads.run(recording_list(state).patient_id, opened.record_id)
        reply = await search(
            state, request, opened.recording, options, patient_id=patient, query=handle, query_record=opened.record_id
        )
    return json_response(reply)


MEASUREMENTS: Final = [
    list_schemas.MeasurementInfo(name=name, title=TITLES[name][0], unit=TITLES[name][1]) for name in NAMES
]


def _row(handles: Handles, item: ListedRecording) -> list_schemas.ListedRecording:
    row = item.row or {}
    return list_schemas.ListedRecording(
        handle=handles.create(item.record_id),
        acquired=item.acquired.isoformat() if item.acquired else None,
        age=coarse_age(item.age),
        sex=item.sex,  # type: ignore[arg-type]  # a store holds no other values
        leads=item.num_leads,
        seconds=round(item.seconds, 3),
        recordings=item.num_recordings,
        known_patient=item.has_known_patient,
        gate=row.get("gate"),
        withheld=row.get("reason") or "",
        measurements=_measured(row),
        classes=[
            list_schemas.ListedClass(name=name, probability=probability)
            for name, probability in class_probabilities(row)[:MAX_CLASSES]
        ],
        prediction_set=row.get("prediction_set") or "",
    )


def _measured(row: dict[str, Any]) -> dict[str, float | None]:
    return {name: row[name] for name in NAMES if name in row}


def _report_reply(report: Report, request_id: str) -> list_schemas.RecordingReport:
    values = report.measurements.values()
    return list_schemas.RecordingReport(
        gate="withheld" if report.withheld else "passed",
        withheld=report.withheld,
        measurements={
            name: list_schemas.ReportedMeasurement(value=item.value, reason=item.reason)
            for name, item in values.items()
        },
        classification=None if report.classification is None else classes_reply(report.classification, request_id),
        notice=schemas.NOTICE,
    )
