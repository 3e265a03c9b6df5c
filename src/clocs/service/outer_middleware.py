"""Outer middleware: request ids, response headers, error responses, metrics and logs."""

from __future__ import annotations

import logging
import re
import secrets
import time
from pathlib import Path
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clocs.core.errors import ClocsError, IntegrityError
from clocs.service.access import SECURITY_HEADERS
from clocs.service.logs import log
from clocs.service.metrics import Metrics
from clocs.service.problems import REQUEST_ID, ProblemError, problem_from_error, send_problem, unexpected_problem

FILE_NAME: Final = re.compile(r"[\w.-]{1,80}")
OTHER: Final = "other"
"""Endpoint name in metrics and logs for unknown addresses."""


class OuterMiddleware:
    """ASGI middleware around all others, without buffering."""

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
            problem = self._problem(error, scope)
            if status:  # too late to say it otherwise than by breaking off
                raise
            await send_problem(scope, noted, problem)
        finally:
            endpoint = getattr(scope.get("route"), "path", OTHER)
            seconds = time.monotonic() - started
            record_request(self._metrics, endpoint, scope["method"], status, seconds, scope[REQUEST_ID])

    def _problem(self, error: Exception, scope: Scope) -> ProblemError:
        """Return the response to an error. Errors of the service are logged by type and code location."""
        if isinstance(error, ProblemError):
            return error
        problem = problem_from_error(error) if isinstance(error, ClocsError) else unexpected_problem()
        if isinstance(error, IntegrityError):
            self._metrics.integrity_errors.inc()
            log("damaged file", logging.ERROR, error, request_id=scope[REQUEST_ID], file=_damaged_file(error))
        elif problem.status >= 500:
            log("error", logging.ERROR, error, request_id=scope[REQUEST_ID])
        return problem


def record_request(metrics: Metrics, endpoint: str, method: str, status: int, seconds: float, request_id: str) -> None:
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


def _damaged_file(error: IntegrityError) -> str:
    """Return the file name at the start of the message, without its folder; empty if there is none."""
    name = Path(error.message.partition(": ")[0]).name
    return name if FILE_NAME.fullmatch(name) else ""


def _close(headers: MutableHeaders, scope: Scope) -> None:
    headers["x-request-id"] = scope[REQUEST_ID]
    headers.update(SECURITY_HEADERS)
    if scope["path"].startswith("/api/"):
        headers["cache-control"] = "no-store"
    else:
        headers.setdefault("cache-control", "no-cache")
