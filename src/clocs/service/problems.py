"""Error responses as ``application/problem+json`` (RFC 9457), without content of uploaded files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope, Send

from clocs.core.errors import (
    ClocsError,
    FormatError,
    LeadError,
    MissingExtraError,
    OptionError,
    SignalError,
    UnitError,
)
from clocs.service.audit_log import AuditError

MEDIA_TYPE: Final = "application/problem+json"
REQUEST_ID: Final = "clocs.request_id"
"""Key of the request id in the ASGI scope."""


@dataclass(eq=False)
class ProblemError(Exception):
    """An error that is sent as a problem response."""

    status: int
    kind: str
    title: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, request_id: str) -> bytes:
        """Return the problem as JSON; ``instance`` is the request id, which also occurs in the log."""
        about = {"type": f"/problems/{self.kind}", "title": self.title, "status": self.status}
        return json.dumps({**about, "detail": self.detail, "instance": request_id}).encode()


NO_ROUTE: Final = "No such address. The endpoints are listed in /api/openapi.json."
UNREADABLE: Final = "The file cannot be read as an ECG"
UNSUITABLE: Final = "The recording is not suitable"
_ERROR_PROBLEMS: Final[tuple[tuple[type[ClocsError], int, str, str], ...]] = (
    (FormatError, 422, "unreadable-file", UNREADABLE),
    (UnitError, 422, "unsuitable-recording", UNSUITABLE),
    (LeadError, 422, "unknown-leads", "The recording has unsupported leads"),
    (SignalError, 422, "unsuitable-recording", UNSUITABLE),
    (OptionError, 422, "wrong-option", "An option is invalid"),
    (AuditError, 503, "audit-log-unavailable", "The audit log is unavailable"),
    (MissingExtraError, 501, "not-installed", "A required package is not installed"),
)
_STATUS_PROBLEMS: Final = {
    400: ("bad-request", "The request cannot be understood"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "This address does not support the method"),
    415: ("not-multipart", "The body must be multipart/form-data"),
}


def problem_from_error(error: ClocsError) -> ProblemError:
    """Convert an error of the package to a problem with its message.

    Messages about stores and about the service's own options name folders and records, so they are not sent.
    """
    for kind, status, name, title in _ERROR_PROBLEMS:
        if isinstance(error, kind):
            return ProblemError(status, name, title, error.message)
    return ProblemError(
        503,
        "archive-unavailable",
        "The archive cannot be read",
        "A file of the index is missing or damaged. The operator of the service finds it in the log.",
    )


def problem_from_status(status: int, detail: str) -> ProblemError:
    """Return the problem for a status of the web framework."""
    kind, title = _STATUS_PROBLEMS.get(status, ("refused", "The request was refused"))
    return ProblemError(status, kind, title, detail)


def unexpected_problem() -> ProblemError:
    """Return the problem for an unexpected error, which reveals only the request id."""
    return ProblemError(
        500,
        "unexpected",
        "Internal error of the service",
        "The error was logged under the id of this request. Trying again may help.",
    )


async def send_problem(scope: Scope, send: Send, problem: ProblemError) -> None:
    """Send a problem at once, even if the body has not arrived; the web server discards the rest."""
    body = problem.body(scope.get(REQUEST_ID, ""))
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
