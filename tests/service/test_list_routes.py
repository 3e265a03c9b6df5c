"""The list of recordings in the API: under handles, with the gate's results, for the right ``list`` only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clocs
from clocs.inference.pretrained import load_encoder
from clocs.inference.report import make_report
from clocs.store.store import open_store
from tests.service.conftest import ENCODER, RECORDS, TOKENS
from tests.service.serving import Served
from tests.service.test_api import problem


def test_recordings_are_listed_newest_first_under_handles(open_handed: Served, copied: Path) -> None:
    store = open_store(copied / "store")
    page = open_handed.get("/api/v1/recordings").json()
    assert (page["total"], page["pages"], page["page"], page["shifted"]) == (RECORDS, 1, 1, False)
    times = [row["acquired"] for row in page["recordings"]]
    assert times == sorted((time.isoformat() for time in store.table("acquired").column(0).to_pylist()), reverse=True)
    assert {row["recordings"] for row in page["recordings"]} == {2}
    assert len({row["handle"] for row in page["recordings"]}) == RECORDS
    text = json.dumps(page)
    names = store.table(["record_id", "patient_id", "source"]).to_pylist()
    assert not [value for row in names for value in row.values() if f'"{value}"' in text]
    again = open_handed.get("/api/v1/recordings?order=stored").json()
    assert [row["handle"] for row in again["recordings"]] == [row["handle"] for row in page["recordings"]]
    assert open_handed.get("/api/v1/recordings?page=2").json()["recordings"] == []
    problem(open_handed.get("/api/v1/recordings?page=0"), 422, "wrong-option")
    problem(open_handed.get("/api/v1/recordings?patient=1"), 422, "wrong-option")


def test_the_table_gives_measurements_and_classes_or_why_they_are_withheld(open_handed: Served, copied: Path) -> None:
    withheld, passed, _, unmeasured = open_handed.get("/api/v1/recordings").json()["recordings"][:4]
    assert (withheld["gate"], withheld["withheld"]) == ("withheld", "too noisy")
    assert (unmeasured["gate"], unmeasured["measurements"], unmeasured["classes"]) == (None, {}, [])
    recording = open_store(copied / "store").recording(RECORDS - 2)
    report = make_report(load_encoder(ENCODER), recording)
    assert passed["measurements"] == {name: item.value for name, item in report.measurements.values().items()}
    assert report.classification is not None
    assert passed["classes"] == [
        {"name": item.name, "probability": item.probability} for item in report.classification.classes[:3]
    ]


def test_a_recording_is_opened_with_those_of_its_patient(open_handed: Served, copied: Path) -> None:
    first, *others = open_handed.get("/api/v1/recordings").json()["recordings"]
    address = f"/api/v1/recordings/{first['handle']}"
    patient = open_handed.get(f"{address}/patient").json()
    assert len(patient["recordings"]) == 2
    assert [row for row in [first, *others] if row in patient["recordings"]] == patient["recordings"]
    preview = open_handed.get(f"{address}/preview").json()
    recording = open_store(copied / "store").recording(RECORDS - 1)
    assert [lead["name"] for lead in preview["leads"]] == list(recording.leads)
    assert preview["signal"]["samples"]["II"] == [
        round(float(value) * 1000) for value in recording.signal[recording.leads.index("II")]
    ]
    report = open_handed.get(f"{address}/report").json()
    made = make_report(load_encoder(ENCODER), recording)
    assert report["measurements"]["qrs_duration"]["value"] == made.measurements.qrs_duration.value
    assert made.classification is not None
    assert [item["name"] for item in report["classification"]["classes"]] == [
        item.name for item in made.classification.classes
    ]
    endpoints = [json.loads(line)["endpoint"] for line in open_handed.audit_log.read_text().splitlines()[-4:]]
    assert endpoints == ["recordings", "patient-recordings", "recording-preview", "recording-report"]
    last = json.loads(open_handed.audit_log.read_text().splitlines()[-1])
    assert (last["handles"], last["records"]) == ([first["handle"]], [recording.record_id])
    measured = open_handed.get(f"{address}/measure").json()
    expected = {name: item.value for name, item in made.measurements.values().items()}
    assert {item["name"]: item["value"] for item in measured["values"]} == expected


def test_a_recording_of_the_list_is_searched_without_its_own_patient(open_handed: Served, copied: Path) -> None:
    first = open_handed.get("/api/v1/recordings").json()["recordings"][0]
    address = f"/api/v1/recordings/{first['handle']}/similar"
    found = open_handed.get(f"{address}?k=5&sex=female").json()
    store = open_store(copied / "store")
    own = store.recording(RECORDS - 1)
    assert {item["sex"] for item in found["neighbours"]} == {"female"}
    everyone = open_handed.get(f"{address}?k=100").json()
    assert own.patient_id not in {item["patient_id"] for item in everyone["neighbours"]}
    assert len(everyone["neighbours"]) == len(clocs.open_index(copied / "index")) - 1
    assert "The index has this patient, who is left out." in everyone["notes"]
    line = json.loads(open_handed.audit_log.read_text().splitlines()[-2])
    assert (line["endpoint"], line["query"], line["query_record"]) == ("similar", first["handle"], own.record_id)
    assert line["filters"]["sex"] == "female"
    assert line["records"] == [item["record_id"] for item in found["neighbours"]]
    problem(open_handed.get(f"{address}?k=0"), 422, "wrong-option")
    problem(open_handed.get(f"{address}?sexes=female"), 422, "wrong-option")


def test_a_recording_of_the_list_is_printed_and_sent_as_fhir(open_handed: Served, copied: Path) -> None:
    first = open_handed.get("/api/v1/recordings").json()["recordings"][0]
    address, start = f"/api/v1/recordings/{first['handle']}", len(open_handed.log)
    fields = {"identifier": "Room 7 Ms K", "order": "A-12-x"}
    sheets = open_handed.post(f"{address}/print?paper=letter", {}, fields={"identifier": fields["identifier"]})
    assert (sheets.status, sheets.headers["content-type"]) == (200, "application/pdf")
    assert b"/PrintScaling /None" in sheets.body
    assert open_handed.ask("POST", f"{address}/print?paper=letter").body != sheets.body, "an identifier is optional"
    report = open_handed.post(f"{address}/fhir", {}, fields=fields).json()["entry"][0]["resource"]
    assert report["subject"] == {"identifier": {"value": fields["identifier"]}}
    assert report["basedOn"] == [{"identifier": {"value": fields["order"]}}]
    assert open_handed.get(f"{address}/figure?format=pdf").body.startswith(b"%PDF")
    lines = [json.loads(line) for line in open_handed.audit_log.read_text().splitlines()[-4:]]
    assert [line["endpoint"] for line in lines] == ["recording-print"] * 2 + ["recording-fhir", "recording-figure"]
    record = open_store(copied / "store").recording(RECORDS - 1).record_id
    assert all((line["handles"], line["records"]) == ([first["handle"]], [record]) for line in lines)
    open_handed.whole_log()
    written = "".join(open_handed.log[start:]) + open_handed.audit_log.read_text()
    assert not [value for value in fields.values() if value in written]
    problem(open_handed.post(f"{address}/print", {"ecg.xml": b"x"}), 400, "bad-request")
    problem(open_handed.post(f"{address}/print", {}, fields={"order": "7"}), 400, "bad-request")
    problem(open_handed.post(f"{address}/print", {}, fields={"identifier": "x" * 65}), 400, "bad-request")
    problem(open_handed.post(f"{address}/print?start=1e6", {}), 422, "wrong-option")
    problem(
        open_handed.ask("POST", f"{address}/fhir", b"{}", {"content-type": "application/json"}), 415, "not-multipart"
    )


@pytest.mark.parametrize("part", ["patient", "preview", "measure", "report", "similar", "figure", "print", "fhir"])
def test_handles_of_neighbours_and_unknown_handles_open_nothing(part: str, open_handed: Served) -> None:
    method = "POST" if part in ("print", "fhir") else "GET"
    for handle in ("r-0", "p-0", clocs.__version__):
        problem(open_handed.ask(method, f"/api/v1/recordings/{handle}/{part}"), 404, "unknown-recording")


def test_a_service_without_a_store_lists_nothing(client: Served) -> None:
    for path in ("recordings", "recordings/r-1/preview"):
        problem(client.get(f"/api/v1/{path}"), 404, "not-found")
    assert client.get("/api/v1/model").json()["recordings"] is None


def test_the_right_to_search_does_not_list(open_handed: Served) -> None:
    for right, status in (("list", 200), ("search", 403), ("view", 403), ("export", 403)):
        reply = open_handed.get("/api/v1/recordings", authorization=f"Bearer {TOKENS[right]['token']}")
        assert reply.status == status
