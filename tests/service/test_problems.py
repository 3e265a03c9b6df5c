"""Errors as problem responses."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pytest

from clocs.core.errors import (
    ClocsError,
    ConfigError,
    FormatError,
    IntegrityError,
    LeadError,
    OptionError,
    SignalError,
    StoreError,
    UnitError,
)
from clocs.service.audit_log import AuditError
from clocs.service.problems import (
    REQUEST_ID,
    ProblemError,
    problem_from_error,
    problem_from_status,
    send_problem,
    unexpected_problem,
)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (FormatError("not a format"), 422, "unreadable-file"),
        (UnitError("in steps"), 422, "unsuitable-recording"),
        (SignalError("too short"), 422, "unsuitable-recording"),
        (LeadError("has ECG"), 422, "unknown-leads"),
        (OptionError("no such label"), 422, "wrong-option"),
    ],
)
def test_request_errors_keep_the_message_of_the_package(error: ClocsError, status: int, kind: str) -> None:
    problem = problem_from_error(error)
    assert (problem.status, problem.kind, problem.detail) == (status, kind, str(error))


def test_a_search_that_cannot_be_written_down_has_a_kind_of_its_own() -> None:
    problem = problem_from_error(AuditError("a search could not be written down: No space left on device"))
    assert (problem.status, problem.kind) == (503, "audit-log-unavailable")
    assert "No space left" in problem.detail


def test_advice_about_code_is_not_sent() -> None:
    error = LeadError("it has I; say so.").with_code_hint("any_lead=True")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "it has I; say so. In code: any_lead=True."
    assert problem_from_error(error).detail == "it has I; say so."


@pytest.mark.parametrize(
    "error",
    [
        StoreError("/home/x/index is gone"),
        IntegrityError("patient 17: changed"),
        ConfigError("no record '17' in /home/x/index"),
    ],
)
def test_archive_errors_are_not_sent(error: ClocsError) -> None:
    problem = problem_from_error(error)
    assert problem.status == 503
    assert str(error) not in problem.detail


def test_internal_errors_reveal_only_the_request_id() -> None:
    body = json.loads(unexpected_problem().body("abc"))
    assert (body["status"], body["instance"]) == (500, "abc")


def test_an_unknown_status_is_answered_too() -> None:
    assert problem_from_status(418, "no").title


def test_a_refusal_is_sent_as_problem_json() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    problem = ProblemError(503, "busy", "Busy", "Wait.", {"retry-after": "1"})
    asyncio.run(send_problem({"method": "POST", "headers": [], REQUEST_ID: "id-1"}, send, problem))
    start, body = sent
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"retry-after"] == b"1"
    assert int(headers[b"content-length"]) == len(body["body"])
    assert json.loads(body["body"]) == {
        "type": "/problems/busy",
        "title": "Busy",
        "status": 503,
        "detail": "Wait.",
        "instance": "id-1",
    }


def test_a_head_request_gets_no_body() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(send_problem({"method": "HEAD", "headers": []}, send, problem_from_status(404, "no")))
    assert sent[1]["body"] == b""
