"""What goes wrong, as the answer says it: ``application/problem+json`` (RFC 9457), without what a file contains."""

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
"""Where a request's scope keeps its id."""


@dataclass(eq=False)
class ProblemError(Exception):
    """An answer that is a refusal."""

    status: int
    kind: str
    title: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, request_id: str) -> bytes:
        """As JSON; ``instance`` is the request's id, by which a log line is found."""
        about = {"type": f"/problems/{self.kind}", "title": self.title, "status": self.status}
        return json.dumps({**about, "detail": self.detail, "instance": request_id}).encode()


UNREADABLE: Final = "The file cannot be read as an ECG"
UNSUITABLE: Final = "The recording is not fit for this"
_OF_CLOCS: Final[tuple[tuple[type[ClocsError], int, str, str], ...]] = (
    (FormatError, 422, "unreadable-file", UNREADABLE),
    (UnitError, 422, "unsuitable-recording", UNSUITABLE),
    (LeadError, 422, "unknown-leads", "The recording has other leads"),
    (SignalError, 422, "unsuitable-recording", UNSUITABLE),
    (OptionError, 422, "wrong-option", "An option is wrong"),
    (AuditError, 503, "audit-log-unavailable", "Without the audit log there is no answer"),
    (MissingExtraError, 501, "not-installed", "The service lacks a part that this needs"),
)
_OF_STATUS: Final = {
    400: ("bad-request", "The request cannot be understood"),
    404: ("not-found", "There is nothing here"),
    405: ("method-not-allowed", "This address does not take such requests"),
    415: ("not-multipart", "The body must be multipart/form-data"),
}


def problem_of(error: ClocsError) -> ProblemError:
    """An error of the package as an answer: its own words, but for advice on code.

    Those of stores, and of options that are not the client's, name folders and records, so their words stay here.
    """
    for kind, status, name, title in _OF_CLOCS:
        if isinstance(error, kind):
            return ProblemError(status, name, title, error.message)
    return ProblemError(
        503,
        "archive-unavailable",
        "The archive cannot be read",
        "A file behind the index is missing or damaged. Who runs the service finds the place in its log.",
    )


def problem_of_status(status: int, detail: str) -> ProblemError:
    """A refusal of the web framework's."""
    kind, title = _OF_STATUS.get(status, ("refused", "The request was refused"))
    return ProblemError(status, kind, title, detail)


def unexpected() -> ProblemError:
    """A fault of ours: nothing about it leaves but the request's id."""
    return ProblemError(
        500,
        "unexpected",
        "Something went wrong in the service",
        "It is not the file's fault, and it was logged under this request's id. Trying again may help.",
    )


async def send_problem(scope: Scope, send: Send, problem: ProblemError) -> None:
    """Answer at once, whether or not the body has come; its rest is the web server's to swallow."""
    body = problem.body(scope.get(REQUEST_ID, ""))
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
