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


@pytest.mark.parametrize("part", ["patient", "preview", "measure", "report"])
def test_handles_of_neighbours_and_unknown_handles_open_nothing(part: str, open_handed: Served) -> None:
    for handle in ("r-0", "p-0", clocs.__version__):
        problem(open_handed.get(f"/api/v1/recordings/{handle}/{part}"), 404, "unknown-recording")


def test_a_service_without_a_store_lists_nothing(client: Served) -> None:
    for path in ("recordings", "recordings/r-1/preview"):
        problem(client.get(f"/api/v1/{path}"), 404, "not-found")
    assert client.get("/api/v1/model").json()["recordings"] is None


def test_the_right_to_search_does_not_list(open_handed: Served) -> None:
    for right, status in (("list", 200), ("search", 403), ("view", 403), ("export", 403)):
        reply = open_handed.get("/api/v1/recordings", authorization=f"Bearer {TOKENS[right]['token']}")
        assert reply.status == status
