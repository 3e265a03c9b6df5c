"""Web server of the service.

SIGTERM stops it after every accepted request is answered. SIGHUP reopens the audit log, as after a rotation.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from clocs.core.errors import ConfigError
from clocs.service.app import create_app
from clocs.service.audit_log import AuditError, AuditLog
from clocs.service.logs import log, logs_written_to
from clocs.service.parsing.pool import WALL_CLOCK_FACTOR
from clocs.service.protocol import edge_protocol
from clocs.service.settings import Limits, ServiceSettings

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 15
SWITCH_SECONDS = 0.001
"""Maximum time in seconds for which a worker thread keeps the event loop waiting for the interpreter."""
SPARE_SECONDS = 15.0


def run(settings: ServiceSettings, ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        settings: Settings of the service.
        ready: Called with the address when requests are answered.
    """
    with _listener(settings.host, settings.port) as listener, _ignore_signals(signal.SIGHUP), logs_written_to():
        app = create_app(settings)
        sys.setswitchinterval(SWITCH_SECONDS)
        address = _address(settings.host, listener.getsockname()[1])
        log("starting", address=address)
        with _ignore_signals(signal.SIGTERM, signal.SIGINT):  # uvicorn raises the received signal again
            _Server(server_config(app, settings.limits), lambda: ready(address)).run(sockets=[listener])
        log("stopped")


def check_address(host: str, port: int) -> None:
    """Raise an error if the service cannot listen on an address."""
    _listener(host, port).close()


def server_config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """Return the configuration of the web server for an application with its middlewares."""
    return uvicorn.Config(
        app,
        http=edge_protocol(limits.head_seconds, app.state.limiter, app.state.metrics),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(limits.upload_seconds + WALL_CLOCK_FACTOR * limits.parse_seconds + SPARE_SECONDS),
        backlog=BACKLOG,
    )


class _Server(uvicorn.Server):
    """Web server that reports when it is ready and handles SIGHUP."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._has_terminal = os.isatty(0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        gc.collect()
        gc.freeze()  # scanning the loaded objects delayed requests by up to 0.2 s
        await super().startup(sockets)
        if self.started:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_hangup)
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log("stopping")
        await super().shutdown(sockets)

    def _on_hangup(self) -> None:
        """Reopen the audit log, or stop if the terminal that started the service is gone."""
        if self._has_terminal and not os.isatty(0):
            self.should_exit = True
        else:
            app: Any = self.config.app
            asyncio.get_running_loop().run_in_executor(None, _reopen, app.state.service.loaded.audit)


def _reopen(audit: AuditLog) -> None:
    try:
        audit.reopen()
        log("audit log reopened")
    except AuditError as error:
        log("audit log cannot be reopened", logging.ERROR, error)


@contextlib.contextmanager
def _ignore_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Ignore signals in this process, but not in its child processes."""
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(family, kind, protocol))  # asyncio: TCP_NODELAY if TCP
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            stack.pop_all()
    except OSError as error:
        is_foreign_address = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        advice = (
            "Pass an address of this machine with --host, such as 127.0.0.1."
            if is_foreign_address
            else "Pass another port with --port, or 0 for a free one."
        )
        raise ConfigError(f"Cannot listen on {host}:{port}: {error.strerror}. {advice}") from error
    return listener


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
