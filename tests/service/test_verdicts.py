"""Reports of wrong results: a local line without signal or identity, and labels from all of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clocs.cli.main import app
from clocs.core.errors import FormatError
from clocs.service import verdicts as module
from clocs.service.verdicts import LABEL_COLUMNS, Result, Verdicts, export_labels
from tests.service.conftest import TOKENS, USER_HEADER
from tests.service.samples import sample
from tests.service.serving import Served
from tests.service.test_api import problem

RESULT = Result("ab" * 32, "rhythms", {"AFIB": 0.7, "SR": 0.3})


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_report_is_a_local_line(open_handed: Served, real_data: Path) -> None:
    files = sample(real_data, "muse-xml")
    anna = {"authorization": f"Bearer {TOKENS['proxy']['token']}", USER_HEADER: "anna"}
    found = open_handed.post("/api/v1/classify", files, headers=anna)
    request_id, item = found.headers["x-request-id"], found.json()["classes"][1]
    assert found.json()["request_id"] == request_id
    address = f"/api/v1/verdicts?request={request_id}&verdict=present&class="
    assert open_handed.ask("POST", address + item["name"], headers=anna).json() == {"request_id": request_id}
    problem(open_handed.ask("POST", f"{address}ZEBRA", headers=anna), 404, "not-found")
    problem(open_handed.ask("POST", address.replace(request_id, "0" * 16) + item["name"]), 404, "not-found")
    problem(open_handed.ask("POST", address.replace("present", "perhaps") + item["name"]), 422, "wrong-option")
    path = open_handed.audit_log.with_name("verdicts.jsonl")
    (line,) = lines(path)
    assert set(line) == {"time", "verdict", *LABEL_COLUMNS} - {"label"}
    assert (line["class"], line["probability"], line["verdict"]) == (item["name"], item["probability"], "present")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "anna" not in path.read_text()


def test_the_oldest_results_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESULTS", 2)
    kept = Verdicts(tmp_path / "verdicts.jsonl")
    for request_id in ("a", "b", "c"):
        kept.remember(request_id, RESULT)
    assert [kept.write(request_id, "SR", "absent") for request_id in ("a", "b", "c")] == [False, True, True]


def test_verdicts_become_labels(tmp_path: Path) -> None:
    path, out = tmp_path / "verdicts.jsonl", tmp_path / "labels.csv"
    kept = Verdicts(path)
    for request_id in ("a", "b"):
        kept.remember(request_id, RESULT)
    assert kept.write("a", "AFIB", "present")
    assert kept.write("b", "AFIB", "absent")
    path.rename(tmp_path / "older")
    assert kept.write("a", "SR", "present")
    assert kept.write("a", "SR", "absent")  # the user thinks again
    path.write_text((tmp_path / "older").read_text() + path.read_text() + '{"request_id": "c", "cla')
    done = CliRunner().invoke(app, ["evaluate", "verdicts", str(path), "--out", str(out)])
    assert (done.exit_code, done.output) == (0, f"{out}: 3 labels\n")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [tuple(row) for row in rows] == [LABEL_COLUMNS] * 3
    labels = {(row["request_id"], row["class"]): (float(row["probability"]), row["label"]) for row in rows}
    assert labels == {("a", "AFIB"): (0.7, "1"), ("b", "AFIB"): (0.7, "0"), ("a", "SR"): (0.3, "0")}


def test_a_file_without_verdicts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text('{"time": "x"}\n')
    with pytest.raises(FormatError, match="no verdicts"):
        export_labels(tmp_path / "empty", tmp_path / "out.csv")
    with pytest.raises(FormatError, match="cannot be read"):
        export_labels(tmp_path / "absent", tmp_path / "out.csv")
