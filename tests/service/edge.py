"""The web server and middlewares of the service, with an application that only receives uploads."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.staticfiles import StaticFiles
from pydantic import SecretStr
from uvicorn.protocols.http.h11_impl import H11Protocol

from clocs.service.admission import RequestLimiter
from clocs.service.app import VIEWER, add_middlewares
from clocs.service.metrics import Metrics
from clocs.service.server import server_config
from clocs.service.settings import Limits, ServiceSettings
from clocs.service.uploads import receive_upload
from tests.service.uploading import TOKEN
from tests.service.waiting import WAIT_SECONDS

SEND_BUFFER = 1 << 16
"""Bytes that the system takes off the server at once; more would hide from it whether a client reads."""


@dataclass(frozen=True)
class Edge:
    """A running web server."""

    port: int
    metrics: Metrics
    limiter: RequestLimiter
    server: uvicorn.Server

    @property
    def connections(self) -> list[H11Protocol]:
        """Those that are open now."""
        return [each for each in self.server.server_state.connections.copy() if isinstance(each, H11Protocol)]

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)
        connection.sendall(sent)
        return connection

    def refusals(self) -> float:
        """Return the number of requests that the server counted as refused."""
        found = self.metrics.requests.labels("/api", "503")._value.get()
        return float(found)


@contextlib.contextmanager
def edge(**limits: Any) -> Iterator[Edge]:
    """Serve uploads, /healthz and the viewer's files within these limits, in a thread of this process."""
    chosen = Limits.model_validate({"active": 1, "waiting": 1, **limits})
    settings = ServiceSettings(token=SecretStr(TOKEN), audit_log=Path("unused"), limits=chosen)
    metrics = Metrics()
    app, limiter = FastAPI(), RequestLimiter(chosen, metrics)

    @app.post("/api/v1/preview")
    async def preview(request: Request) -> dict[str, int]:
        async with receive_upload(request, chosen) as upload, limiter.work():
            return {"size": upload.size}

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    app.mount("/viewer", StaticFiles(directory=VIEWER))
    add_middlewares(app, settings, limiter, metrics)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        server = _Announced(server_config(app, chosen))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert server.ready.wait(WAIT_SECONDS)
            yield Edge(listener.getsockname()[1], metrics, limiter, server)
        finally:
            server.should_exit = True
            thread.join(WAIT_SECONDS)


class _Announced(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()
