"""Property tests of the running service against its OpenAPI document with schemathesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.service.serving import Served
from tests.service.uploading import TOKEN

CONFORMING = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
REFUSING = ("negative_data_rejection", "unsupported_method", "ignored_auth", "missing_required_header")


def for_the_tool(document: Any) -> Any:
    """The document with its pairs as plain arrays of two: schemathesis 4 cannot check the ``prefixItems`` of 3.1."""
    if isinstance(document, list):
        return [for_the_tool(item) for item in document]
    if not isinstance(document, dict):
        return document
    pair = {"items": document["prefixItems"][0]} if "prefixItems" in document else {}
    return {name: for_the_tool(value) for name, value in (document | pair).items() if name != "prefixItems"}


def run_schemathesis(service: Served, folder: Path, checks: tuple[str, ...], *options: str, hooks: str = "") -> None:
    document = for_the_tool(service.get("/api/openapi.json").json())
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        "openapi.json",
        f"--url=http://127.0.0.1:{service.port}",
    ]
    command += [f"--header=Authorization: Bearer {TOKEN}", f"--checks={','.join(checks)}", "--generation-database=none"]
    command += ["--request-timeout=60", "--suppress-health-check=all", "--no-color", *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | ({"SCHEMATHESIS_HOOKS": hooks} if hooks else {})
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, "\n".join(line[:300] for line in done.stdout.splitlines()) + done.stderr[-2000:]
    assert f"Tested: {len(document['paths'])}" in done.stdout


def run_with_random_bodies(service: Served, folder: Path, *options: str) -> None:
    """Valid and invalid requests; the token left out; other methods."""
    run_schemathesis(service, folder, CONFORMING + REFUSING, *options)


def run_with_an_ecg(service: Served, folder: Path, *options: str) -> None:
    """Valid requests, every other upload a real file: answers of 200 are held against their schemas."""
    given = (*options, "--mode=positive", "--phases=fuzzing")
    start = len(service.log)
    run_schemathesis(service, folder, CONFORMING, *given, hooks="tests.service.real_uploads")
    service.whole_log()
    entries = [json.loads(line) for line in service.log[start:]]
    answered = {entry.get("endpoint") for entry in entries if entry.get("status") == 200}
    assert answered >= {f"/api/v1/{name}" for name in ("preview", "classify", "similar", "figure")}


def test_random_requests_are_answered_as_documented(client: Served, tmp_path: Path) -> None:
    run_with_random_bodies(client, tmp_path, "--phases=coverage,fuzzing", "--max-examples=2", "--seed=1")


def test_questions_about_an_ecg_are_answered_as_documented(client: Served, tmp_path: Path) -> None:
    run_with_an_ecg(client, tmp_path, "--max-examples=3", "--seed=1")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", range(2))
def test_both_at_length(seed: int, client: Served, tmp_path: Path) -> None:
    run_with_random_bodies(client, tmp_path, "--max-examples=300", f"--seed={seed}")
    run_with_an_ecg(client, tmp_path, "--max-examples=150", f"--seed={seed}")
