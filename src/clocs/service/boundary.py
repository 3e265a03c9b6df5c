"""The outer wall: every request gets an id, every answer its headers, every error an answer, and all a log line."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clocs.core.errors import ClocsError
from clocs.service.access import SECURITY_HEADERS
from clocs.service.logs import log
from clocs.service.metrics import Metrics
from clocs.service.problems import REQUEST_ID, ProblemError, problem_of, send_problem, unexpected

OTHER: Final = "other"
"""What metrics and logs call an address that is none of ours."""


class Boundary:
    """Pure ASGI, so that nothing is buffered."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope[REQUEST_ID] = secrets.token_hex(8)
        started, status = time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _close(MutableHeaders(scope=message), scope)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            problem = _problem(error, scope)
            if status:  # too late to say it otherwise than by breaking off
                raise
            await send_problem(scope, noted, problem)
        finally:
            endpoint = getattr(scope.get("route"), "path", OTHER)
            seconds = time.monotonic() - started
            note_request(self._metrics, endpoint, scope["method"], status, seconds, scope[REQUEST_ID])


def note_request(metrics: Metrics, endpoint: str, method: str, status: int, seconds: float, request_id: str) -> None:
    """Count a request and write its log line."""
    metrics.requests.labels(endpoint, str(status)).inc()
    metrics.seconds.labels(endpoint).observe(seconds)
    log(
        "request",
        logging.INFO if status < 500 else logging.WARNING,
        request_id=request_id,
        method=method if method in ("GET", "POST", "HEAD") else OTHER,
        endpoint=endpoint,
        status=status,
        seconds=round(seconds, 4),
    )


def _problem(error: Exception, scope: Scope) -> ProblemError:
    """What is answered; an error that is not the client's is logged by its type and place."""
    if isinstance(error, ProblemError):
        return error
    problem = problem_of(error) if isinstance(error, ClocsError) else unexpected()
    if problem.status >= 500:
        log("error", logging.ERROR, error, request_id=scope[REQUEST_ID])
    return problem


def _close(headers: MutableHeaders, scope: Scope) -> None:
    headers["x-request-id"] = scope[REQUEST_ID]
    headers.update(SECURITY_HEADERS)
    if scope["path"].startswith("/api/"):
        headers["cache-control"] = "no-store"
    else:
        headers.setdefault("cache-control", "no-cache")
