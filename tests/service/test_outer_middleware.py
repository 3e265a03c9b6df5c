"""Every error becomes a problem response and a log line with its location."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from clocs.core.errors import FormatError, IntegrityError, StoreError
from clocs.service.metrics import Metrics
from clocs.service.outer_middleware import OuterMiddleware

SECRET = "Winterbottom 4711"


def answered(app: Any, method: str = "GET", path: str = "/api/v1/map") -> tuple[list[dict[str, Any]], Metrics]:
    sent: list[dict[str, Any]] = []
    metrics = Metrics()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "path": path, "method": method, "headers": [], "query_string": SECRET.encode()}
    asyncio.run(OuterMiddleware(app, metrics)(scope, receive, send))
    return sent, metrics


@pytest.mark.parametrize(
    ("error", "status"), [(KeyError(SECRET), 500), (StoreError(SECRET), 503), (FormatError("holds no sample"), 422)]
)
def test_an_error_becomes_a_problem(error: Exception, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise error

    with caplog.at_level(logging.INFO, "clocs.service"):
        (start, body), metrics = answered(fails)
    told = json.loads(body["body"])
    headers = dict(start["headers"])
    assert (start["status"], told["status"]) == (status, status)
    assert told["instance"].encode() == headers[b"x-request-id"]
    assert SECRET not in body["body"].decode()
    assert f'status="{status}"' in metrics.text().decode()
    assert [record.getMessage() for record in caplog.records] == (["error"] if status >= 500 else []) + ["request"]
    assert SECRET not in repr([vars(record).get("fields") for record in caplog.records])


@pytest.mark.parametrize(
    ("message", "file"),
    [
        ("shard-00000.arrow: 64 KiB at 131072 differ", "shard-00000.arrow"),
        (f"/srv/{SECRET}/shard-00000.arrow: differs", "shard-00000.arrow"),
        (SECRET, ""),
        (f"split '{SECRET}' cannot be read: gone", ""),
    ],
)
def test_a_damaged_file_is_logged_and_counted(message: str, file: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise IntegrityError(message)

    with caplog.at_level(logging.INFO, "clocs.service"):
        (start, body), metrics = answered(fails)
    assert (start["status"], json.loads(body["body"])["type"]) == (503, "/problems/archive-unavailable")
    assert "clocs_integrity_errors_total 1.0" in metrics.text().decode()
    damaged, _ = (vars(record) for record in caplog.records)
    assert (damaged["msg"], damaged["fields"]["file"]) == ("damaged file", file)
    assert "arrow" not in body["body"].decode()
    assert SECRET not in body["body"].decode() + repr(damaged["fields"])


def test_an_aborted_response_is_not_replaced() -> None:
    async def begins(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError(SECRET)

    with pytest.raises(KeyError):
        answered(begins)


def test_a_log_line_has_no_word_of_the_client(caplog: pytest.LogCaptureFixture) -> None:
    async def answers(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})

    with caplog.at_level(logging.INFO, "clocs.service"):
        answered(answers, method="WINTERBOTTOM", path="/winterbottom/4711")
    (record,) = caplog.records
    fields = vars(record)["fields"]
    assert (fields["method"], fields["endpoint"], fields["status"]) == ("other", "other", 404)
    assert "winterbottom" not in repr(fields).lower()


def test_other_scopes_pass_through() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(OuterMiddleware(app, Metrics())({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]
