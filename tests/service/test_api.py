"""Every endpoint and every error of the API, and its OpenAPI document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from clocs import __version__
from clocs.datasets.synthetic import MEANINGS
from clocs.inference.pretrained import load_encoder
from clocs.inference.results import Classification
from clocs.measurements.measurements import measure
from clocs.service import schemas
from clocs.service.parsing.landlock import landlock_version
from clocs.service.parsing.reading import read_upload
from clocs.service.rights import ROUTE_RIGHTS
from clocs.signals.leads import STANDARD_LEADS
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.withdraw import withdraw_from_index
from tests.drawing.printed_text import printed_text
from tests.service.samples import FORMATS, SAMPLES, UNTRAINED, sample
from tests.service.serving import Reply, Served
from tests.service.uploading import TOKEN, multipart
from tests.service.waiting import eventually


def checked(model: type[BaseModel], reply: Reply) -> Any:
    """A reply that is what its model says, as plain JSON."""
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"] == "application/json"
    model.model_validate_json(reply.body)
    return reply.json()


def problem(reply: Reply, status: int, kind: str) -> dict[str, Any]:
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json")
    told = schemas.ProblemDetails.model_validate_json(reply.body)
    assert (told.type, told.status, told.instance) == (f"/problems/{kind}", status, reply.headers["x-request-id"])
    found: dict[str, Any] = reply.json()
    return found


def test_health(client: Served) -> None:
    health = {"status": "ok", "version": __version__}
    assert checked(schemas.Health, client.get("/healthz")) == health
    level = f"seccomp+landlock {landlock_version()}"
    assert checked(schemas.Ready, client.get("/readyz")) == {**health, "confinement": level}
    assert f'clocs_parsing_confinement{{level="{level}"}} 1.0' in client.get("/metrics").body.decode()
    assert any(f'"confinement": "{level}"' in line for line in client.log)


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_a_head_alone_can_be_asked_for(path: str, client: Served) -> None:
    reply = client.ask("HEAD", path)
    assert (reply.status, reply.body) == (200, b"")


def test_model(client: Served) -> None:
    found = checked(schemas.ModelInfo, client.get("/api/v1/model"))
    encoder = load_encoder("cmsc-chapman")
    assert (found["encoder"], found["embedding_dim"], found["sampling_rate"], found["seconds"]) == (
        "cmsc-chapman",
        128,
        500.0,
        5.0,
    )
    assert found["leads"] == list(encoder.input.leads)
    assert [item["name"] for item in found["classes"]] == [item.name for item in encoder.classifier().card.classes]
    assert [item["name"] for item in found["classifiers"]] == list(encoder.classifiers)
    sets = [[item["leads"] for item in classifier["lead_sets"]] for classifier in found["classifiers"]]
    assert sets == [[list(item.leads) for item in one.card.lead_sets] for one in encoder.classifiers.values()]
    assert found["card"].startswith("---\nlibrary_name: clocs")
    assert found["index"]["patients"] == 20
    assert set(found["index"]["labels"]) <= set(MEANINGS)
    assert (found["shows_ids"], found["embeddings"], found["prints_times"]) == (False, False, False)
    assert "Not a medical device" in found["notice"]


@pytest.mark.parametrize("name", SAMPLES)
def test_real_files(name: str, client: Served, real_data: Path) -> None:
    """Shown as read; classified as the package classifies; neighbours found; drawn."""
    files = sample(real_data, name)
    recording = read_upload(files)
    shown = checked(schemas.Preview, client.post("/api/v1/preview", files))
    assert shown["format"] == FORMATS.get(name, name)
    assert [lead["name"] for lead in shown["leads"]] == list(recording.leads)
    assert shown["shown_seconds"] == recording.seconds
    more = "?any_lead=true" if name in UNTRAINED else ""
    if more:
        told = problem(client.post("/api/v1/classify", files), 422, "unknown-leads")
        assert "'chapman' needs leads I, II" in told["detail"]
    else:
        found = checked(schemas.ClassificationResponse, client.post("/api/v1/classify", files))
        assert_same_classes(found, load_encoder("cmsc-chapman").classify(recording))
    alike = checked(schemas.SimilarResponse, client.post(f"/api/v1/similar{more or '?'}&k=3", files))
    is_comparable = "ECG" not in recording.leads  # no patient of the index has a lead of this name
    assert len(alike["neighbours"]) == 3 * is_comparable
    assert is_comparable != any("no embedding of lead ECG" in note for note in alike["notes"])
    drawn = client.post("/api/v1/figure?seconds=2", files)
    assert (drawn.status, drawn.body[:4]) == (200, b"\x89PNG")


def test_noise_gets_no_class_and_no_neighbours(client: Served) -> None:
    noise = np.random.default_rng(0).normal(0, 0.3, (5000, 2))
    rows = "\n".join(f"{one:.3f},{two:.3f}" for one, two in noise.tolist())
    files = {"noise.csv": f"# clocs ECG 2\n# sampling_rate: 500\nI,II\n{rows}\n".encode()}
    found = checked(schemas.ClassificationResponse, client.post("/api/v1/classify", files))
    assert found["classes"] == []
    assert "heartbeats cannot be measured: no clear beats" in found["withheld"]
    told = problem(client.post("/api/v1/similar", files), 422, "unsuitable-recording")
    assert "is not compared with patients" in told["detail"]

    measured = checked(schemas.MeasurementsResponse, client.post("/api/v1/measure", files))
    assert {item["value"] for item in measured["values"]} == {None}
    assert all(item["reason"] for item in measured["values"])
    assert measured["beat"] is None


def test_measurements_are_those_of_the_package(client: Served, real_data: Path) -> None:
    """The values, the ranges of adults, and the median beat in microvolt."""
    files = sample(real_data, "muse-xml")
    found = checked(schemas.MeasurementsResponse, client.post("/api/v1/measure", files))
    truth = measure(read_upload(files))
    assert [item["value"] for item in found["values"] if item["name"] in truth.values()] == [
        None if item.value is None else pytest.approx(item.value, abs=1e-3) for item in truth.values().values()
    ]
    assert truth.beat is not None
    assert found["beat"]["marks"] == pytest.approx(truth.beat.marks, abs=1e-3)
    assert list(found["beat"]["samples"]) == list(truth.beat.leads)
    first = np.array(found["beat"]["samples"][truth.beat.leads[0]]) / 1000
    np.testing.assert_allclose(first, truth.beat.signal[0], atol=6e-4)


def assert_same_classes(found: dict[str, Any], truth: Classification) -> None:
    assert [item["name"] for item in found["classes"]] == [item.name for item in truth.classes]
    wanted = [item.probability for item in truth.classes]
    assert [item["probability"] for item in found["classes"]] == pytest.approx(wanted, abs=1e-6)
    assert [item["track_record"] for item in found["classes"]] == [item.track_record for item in truth.classes]
    assert found["notes"] == list(truth.notes)
    assert (found["classifier"], found["leads"]) == ("chapman", list(truth.leads))


def test_neighbours_are_shown_by_handle(client: Served, real_data: Path) -> None:
    reply = client.post("/api/v1/similar?k=4&sex=female&age_from=20&label=", sample(real_data, "muse-xml"))
    found = checked(schemas.SimilarResponse, reply)
    assert [item["sex"] for item in found["neighbours"]] == ["female"] * len(found["neighbours"])
    assert found["neighbours"]
    for item in found["neighbours"]:
        assert {"patient_id", "record_id"}.isdisjoint(item)
        shown = checked(schemas.Preview, client.get(f"/api/v1/neighbours/{item['handle']}/preview"))
        assert (shown["age"], shown["sex"], len(shown["leads"])) == (item["age"], "female", 12)
        assert set(shown["labels"]) <= set(item["labels"])
    problem(client.get("/api/v1/neighbours/p-00000000000000000000/preview"), 404, "unknown-handle")


def test_no_id_leaves(client: Served, real_data: Path) -> None:
    """Ids of the demonstration are P0000001 and 0000001."""
    files = sample(real_data, "muse-xml")
    replies = [client.post("/api/v1/similar?k=20", files), client.get("/api/v1/map"), client.get("/api/v1/model")]
    handle = replies[0].json()["neighbours"][0]["handle"]
    replies.append(client.get(f"/api/v1/neighbours/{handle}/preview"))
    for reply in replies:
        assert reply.status == 200
        assert not re.search(rb"P00000\d\d|\"00000\d\d\"", reply.body)


def test_the_map(client: Served) -> None:
    found = checked(schemas.MapResponse, client.get("/api/v1/map"))
    assert len(found["points"]) == len(found["label"]) == len(found["age"]) == 20
    assert 0 < found["explained"][1] <= found["explained"][0] < 1


def test_figures(client: Served, real_data: Path) -> None:
    for form, start, kind in (("png", b"\x89PNG", "image/png"), ("pdf", b"%PDF", "application/pdf")):
        reply = client.post(f"/api/v1/figure?format={form}", sample(real_data, "scp"))
        assert reply.body.startswith(start)
        assert reply.headers["content-type"] == kind
        assert reply.headers["content-disposition"] == f'attachment; filename="ecg.{form}"'


def test_printed_sheets_carry_the_typed_identifier(client: Served, real_data: Path) -> None:
    files, start = sample(real_data, "muse-xml"), len(client.log)
    reply = client.post("/api/v1/print?paper=letter", files, fields={"identifier": "Room 7 Ms K"})
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/pdf"
    assert b"/PrintScaling /None" in reply.body
    without = client.post("/api/v1/print?paper=letter", files)
    assert without.status == 200
    text = printed_text(reply.body)
    assert text.startswith("Room 7 Ms K\n")
    assert "\nHeart rate: 48 /min\n" in text
    assert "\nover 99% sinus bradycardia" in text
    assert "\nunder 1% " in text
    assert "For research use only. Not a medical device." in text
    assert printed_text(without.body).startswith("ECG\n")
    problem(client.post("/api/v1/print?start=1e6", files), 422, "wrong-option")
    problem(client.post("/api/v1/print", files, fields={"identifier": "x" * 65}), 400, "bad-request")
    problem(client.post("/api/v1/print", files, fields={"order": "7"}), 400, "bad-request")
    client.whole_log()
    assert "Room 7" not in "".join(client.log[start:])
    assert "Room 7" not in client.audit_log.read_text()


def test_sheets_state_the_files_own_time_if_the_operator_allows_it(
    client: Served, open_handed: Served, real_data: Path
) -> None:
    """Of a recording of the store, its time in the store."""
    assert [item.get("/api/v1/model").json()["prints_times"] for item in (client, open_handed)] == [False, True]
    sheets = {
        (place, name): printed_text(item.post("/api/v1/print", sample(real_data, name)).body)
        for place, item in (("client", client), ("open", open_handed))
        for name in ("scp", "muse-xml")
    }
    assert "Recorded" not in sheets["client", "scp"] + sheets["client", "muse-xml"]
    assert "\nRecorded: 2002-11-22 09:10:00\n" in sheets["open", "scp"]
    assert "\nRecorded: time not known\n" in sheets["open", "muse-xml"]
    row = open_handed.get("/api/v1/recordings").json()["recordings"][0]
    stored = printed_text(open_handed.post(f"/api/v1/recordings/{row['handle']}/print", {}).body)
    assert f"\nRecorded: {row['acquired'].replace('T', ' ')}\n" in stored


def test_a_report_as_fhir(client: Served, real_data: Path) -> None:
    files, start = sample(real_data, "muse-xml"), len(client.log)
    reply = client.post("/api/v1/fhir", files, fields={"identifier": "K-4711-x", "order": "A-12-x"})
    assert reply.headers["content-type"] == "application/fhir+json"
    report, *observations = [entry["resource"] for entry in reply.json()["entry"]]
    assert report["status"] == "preliminary"
    assert report["subject"] == {"identifier": {"value": "K-4711-x"}}
    assert report["basedOn"] == [{"identifier": {"value": "A-12-x"}}]
    assert len(observations) == 12
    client.whole_log()
    assert "K-4711-x" not in "".join(client.log[start:]) + client.audit_log.read_text()
    assert "subject" not in client.post("/api/v1/fhir", files).json()["entry"][0]["resource"]


@pytest.mark.parametrize("sampling_rate", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_minute_of_twelve_leads_is_drawn(sampling_rate: int, open_handed: Served) -> None:
    """A figure covers as much as a preview; more is refused."""
    values = np.random.default_rng(0).normal(size=(60 * sampling_rate, 12)).round(3).tolist()
    rows = "\n".join(",".join(map(str, row)) for row in values)
    head = f"# clocs ECG 2\n# sampling_rate: {sampling_rate}\n{','.join(STANDARD_LEADS)}"
    files = {"long.csv": f"{head}\n{rows}\n".encode()}
    assert open_handed.post("/api/v1/figure?format=pdf&seconds=60", files).body.startswith(b"%PDF")
    told = problem(open_handed.post("/api/v1/figure?format=pdf&seconds=61", files), 422, "wrong-option")
    assert "seconds: " in told["detail"]


def test_everyone_of_an_age_that_is_shown_is_found_by_it(client: Served, real_data: Path) -> None:
    files = sample(real_data, "muse-xml")
    age = client.post("/api/v1/similar?k=1", files).json()["neighbours"][0]["age"]
    found = client.post(f"/api/v1/similar?age_from={age:g}&age_to={age:g}", files).json()["neighbours"]
    assert {item["age"] for item in found} == {age}


def test_embeddings_are_disabled_by_default(client: Served, real_data: Path) -> None:
    problem(client.post("/api/v1/embed", sample(real_data, "muse-xml")), 403, "embeddings-switched-off")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("k=0", "k: Input should be greater than or equal to 1"),
        ("k=101", "k: "),
        ("k=Winterbottom", "k: Input should be a valid integer"),
        ("sex=Winterbottom", "sex: Input should be 'female', 'male'"),
        ("age_from=-1", "age_from: "),
        ("age_to=nan", "age_to: "),
        ("age_from=80&age_to=20", "Expected an age range in ascending order"),
        ("label=" + "x" * 201, "label: "),
        (
            "sexx=Winterbottom",
            "Unknown query option. Available: k, label, sex, age_from, age_to, site, where, any_lead",
        ),
        ("label=XYZ", "No patient of the index has the label"),
        ("where=ward%3D3", "Unknown column 'ward'. Extra columns of this index: none."),
        ("where=ward", "Expected a condition such as device=CS-12"),
        ("where=ward%3D" + "x" * 200, "where"),
    ],
)
def test_wrong_options_are_explained(query: str, words: str, client: Served, real_data: Path) -> None:
    told = problem(client.post(f"/api/v1/similar?{query}", sample(real_data, "muse-xml")), 422, "wrong-option")
    assert words in told["detail"]
    assert "Winterbottom" not in told["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("GET", "/viewer/nothing.js", 404, "not-found"),
        ("GET", "/viewer/../settings.py", 404, "not-found"),
        ("GET", "/viewer/%2e%2e/settings.py", 404, "not-found"),
        ("GET", "/viewer/..%2fsettings.py", 404, "not-found"),
        ("GET", "/docs", 404, "not-found"),
        ("GET", "/api/v1/classify", 405, "method-not-allowed"),
        ("DELETE", "/api/v1/map", 405, "method-not-allowed"),
        ("POST", "/healthz", 405, "method-not-allowed"),
        ("POST", "/api/v1/classify?classifier=none", 404, "not-found"),
    ],
)
def test_what_is_not_there(method: str, path: str, status: int, kind: str, client: Served) -> None:
    problem(client.ask(method, path), status, kind)


def test_without_a_token_nothing_is_returned(client: Served, real_data: Path) -> None:
    body, headers = multipart(sample(real_data, "muse-xml"))
    for path in ("/api/v1/classify", "/api/v1/similar", "/api/v1/preview"):
        reply = client.ask("POST", path, body, headers | {"authorization": "Bearer wrong-wrong-wrong"})
        problem(reply, 401, "token-needed")
        assert reply.headers["www-authenticate"] == "Bearer"
    problem(client.get("/metrics", authorization=""), 401, "token-needed")


def test_the_viewer_is_served(client: Served) -> None:
    page = client.get("/", authorization="")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    script = client.get("/viewer/app.js", authorization="")
    assert script.status == 200
    assert "javascript" in script.headers["content-type"]


def test_searches_are_logged(client: Served, demo: Path, real_data: Path) -> None:
    """Each with what was asked and who was shown, but no patient's id; so are the previews of neighbours."""
    files = sample(real_data, "aecg")
    reply = client.post("/api/v1/similar?k=2&sex=male", files)
    handles = [item["handle"] for item in reply.json()["neighbours"]]
    looked = client.get(f"/api/v1/neighbours/{handles[0]}/preview")
    text = client.audit_log.read_text()
    lines = {line["request_id"]: line for line in map(json.loads, text.splitlines())}
    line = lines[reply.headers["x-request-id"]]
    assert (line["endpoint"], line["k"], line["filters"]["sex"], line["handles"]) == ("similar", 2, "male", handles)
    assert re.fullmatch("[0-9a-f]{64}", line["upload_sha256"])
    assert lines[looked.headers["x-request-id"]]["handles"] == handles[:1]
    assert lines[looked.headers["x-request-id"]]["records"] == line["records"][:1]
    truth = open_index(demo / "index").similar(read_upload(files), 2, sex="male")
    assert line["records"] == [item.record_id for item in truth.neighbors]
    assert "P0000" not in text
    assert "hl7" not in text
    assert client.audit_log.stat().st_mode & 0o777 == 0o600


def test_metrics(client: Served, real_data: Path) -> None:
    client.post("/api/v1/classify", sample(real_data, "muse-xml"))
    client.post("/api/v1/classify", {"x.txt": b"nothing"})
    client.get("/mrs-smith")
    eventually(lambda: client.count("clocs_requests_active") == client.count("clocs_requests_waiting") == 0)
    text = client.get("/metrics").body.decode()
    for wanted in (
        r'clocs_requests_total\{endpoint="/api/v1/classify",status="200"\} [1-9]',
        r'clocs_requests_total\{endpoint="/api/v1/classify",status="422"\} [1-9]',
        r'clocs_requests_total\{endpoint="other",status="404"\} [1-9]',
        r'clocs_request_seconds_bucket\{endpoint="/api/v1/classify",le="30.0"\} [1-9]',
        r'clocs_parsing_total\{outcome="ok"\} [1-9]',
        r'clocs_parsing_total\{outcome="refused"\} [1-9]',
        r"clocs_integrity_errors_total \d",
        r"process_resident_memory_bytes [1-9]",
    ):
        assert re.search(wanted, text), wanted
    assert "smith" not in text


def test_the_document(client: Served) -> None:
    """Every endpoint with its refusals, every schema there, examples in it, nothing from elsewhere."""
    reply = client.get("/api/openapi.json")
    document = reply.json()
    assert document["openapi"].startswith("3.1")
    paths = {path for path in document["paths"] if path.startswith("/api/v1")}
    assert paths == {path for path in ROUTE_RIGHTS if path.startswith("/api/v1")}
    references = set(re.findall(r'"\$ref":"#/components/schemas/(\w+)"', reply.body.decode()))
    assert references <= set(document["components"]["schemas"])
    assert "ProblemShown" in references
    assert '"examples"' in reply.body.decode()
    assert "http://" not in reply.body.decode().replace("http://localhost", "")
    assert [document["paths"][path]["get"].get("security") for path in ("/healthz", "/metrics")] == [
        [],
        [{"token": ["metrics"]}],
    ]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert path == "/healthz" or any(status[0] in "45" for status in operation["responses"])
            if "requestBody" in operation:
                assert "multipart/form-data" in operation["requestBody"]["content"]


def test_ids_and_embeddings_where_they_were_asked_for(open_handed: Served, real_data: Path) -> None:
    files = sample(real_data, "muse-xml")
    found = checked(schemas.SimilarResponse, open_handed.post("/api/v1/similar?k=1", files))["neighbours"][0]
    assert re.fullmatch(r"P\d{7}", found["patient_id"])
    assert re.fullmatch(r"\d{7}", found["record_id"])
    made = checked(schemas.EmbeddingResponse, open_handed.post("/api/v1/embed", files))
    truth = load_encoder("cmsc-chapman").embed(read_upload(files))
    assert made["embedding"] == pytest.approx(truth.pooled().tolist(), abs=1e-5)
    assert (made["leads"], len(made["rows"][0])) == (list(truth.lead), 128)
    assert "P00000" not in open_handed.audit_log.read_text()


def test_a_withdrawn_patient_is_no_longer_known(copied: Path, open_handed: Served, real_data: Path) -> None:
    """An earlier handle of the patient is refused without revealing an id or a path."""
    files = sample(real_data, "muse-xml")
    gone, left = open_handed.post("/api/v1/similar?k=2", files).json()["neighbours"]
    withdraw_from_index(copied / "index", [gone["patient_id"]])
    told = problem(open_handed.get(f"/api/v1/neighbours/{gone['handle']}/preview"), 404, "unknown-handle")
    assert "Search again" in told["detail"]
    assert not [word for word in (gone["record_id"], gone["patient_id"], str(copied)) if word in json.dumps(told)]
    assert open_handed.get(f"/api/v1/neighbours/{left['handle']}/preview").status == 200


def test_a_missing_archive_is_reported_without_its_path(copied: Path, open_handed: Served, real_data: Path) -> None:
    handle = open_handed.post("/api/v1/similar?k=1", sample(real_data, "muse-xml")).json()["neighbours"][0]["handle"]
    (copied / "store").rename(copied / "elsewhere")
    try:
        told = problem(open_handed.get(f"/api/v1/neighbours/{handle}/preview"), 503, "archive-unavailable")
    finally:
        (copied / "elsewhere").rename(copied / "store")
    assert str(copied) not in json.dumps(told)
    written = open_handed.logged(f'"event": "error", "request_id": "{told["instance"]}"')
    assert "StoreError" in written
    assert "0000" not in written.replace(told["instance"], "")
    assert TOKEN not in open_handed.whole_log()
