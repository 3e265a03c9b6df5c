"""The service in this process: its ASGI application, without a network and without parser processes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from clocs.core.errors import IntegrityError
from clocs.core.recording import Recording
from clocs.formats import read
from clocs.service.app import create_app
from clocs.service.logs import JsonLines
from clocs.service.parsing.confinement import Confinement
from clocs.service.settings import Limits, ServiceSettings
from tests.service.uploading import TOKEN, multipart

HANDLE: Final = re.compile(r"p-[0-9a-f]{20}")
UNAVAILABLE: Final = 503
REFUSED: Final = "refused"
"""Output in place of an answer for a rejected request."""
NUM_NEIGHBORS: Final = 3


class _Pool:
    """Returns one recording for every upload, because the parser does not read any of the damaged files."""

    recording_read: Recording
    pids = (0,)

    def __init__(self, *_: Any) -> None:
        pass

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def recording(self, _: Any) -> Recording:
        return self.recording_read


def answers(folder: Path, sample: Path) -> Iterator[Any]:
    """Iterate over the answers of every endpoint that reads files, without values that differ between starts.

    Raises:
        IntegrityError: A request was answered 503; the message is what the service logged.
    """
    logged: list[str] = []
    confined = patch("clocs.service.state.check_confinement", return_value=Confinement(True, 1, ()))
    with patch("clocs.service.state.ParsingPool", _Pool), confined, _logged_to(logged):
        _Pool.recording_read = read(sample)
        found = asyncio.run(_ask(folder, sample.read_bytes()))
    for status, body in found:
        yield REFUSED if status == UNAVAILABLE else (status, body)
    refused = sum(status == UNAVAILABLE for status, _ in found)
    if refused:
        raise IntegrityError(f"{refused} of {len(found)} requests were answered 503: " + "\n".join(logged))


class _logged_to(logging.Handler):  # noqa: N801
    """Collects the service's log lines."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))

    def __enter__(self) -> None:
        logging.getLogger("clocs.service").addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("clocs.service").removeHandler(self)


async def _ask(folder: Path, upload: bytes) -> list[tuple[int, str]]:
    settings = ServiceSettings.model_validate(
        {
            "index": folder / "index",
            "token": TOKEN,
            "audit_log": folder / "searches.jsonl",
            "limits": Limits(active=1, parsing_processes=1),
        }
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        body, headers = multipart({"sample.hea": upload})
        replies = [await _request(app, "GET", "/api/v1/map", b"", headers)]
        replies.append(await _request(app, "POST", "/api/v1/classify", body, headers))
        status, similar = await _request(app, "POST", f"/api/v1/similar?k={NUM_NEIGHBORS}", body, headers)
        replies.append((status, similar))
        for handle in HANDLE.findall(similar):
            replies.append(await _request(app, "GET", f"/api/v1/neighbours/{handle}/preview", b"", headers))
    return [(status, HANDLE.sub("handle", text)) for status, text in replies]  # handles are drawn at each start


async def _request(app: Any, method: str, address: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    path, _, query = address.partition("?")
    given = {**headers, "host": "localhost", "content-length": str(len(body))}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent).decode()
