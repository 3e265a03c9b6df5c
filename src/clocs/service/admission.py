"""Admission control from the request head alone, so that a refusal is cheap."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clocs.service.metrics import Metrics
from clocs.service.problems import ProblemError, send_problem
from clocs.service.settings import Limits
from clocs.service.uploads import too_large, too_slow

RETRY_SECONDS: Final = 1
PREFIX: Final = "/api/"


class RequestLimiter:
    """Limit on the number of active and waiting requests; further requests are refused."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._max_inside = limits.active + limits.waiting
        self._work = asyncio.Semaphore(limits.active)
        self._metrics = metrics
        self.inside = 0

    @property
    def is_full(self) -> bool:
        return self.inside >= self._max_inside

    def enter(self) -> bool:
        """Admit a request, and return False if the service is full."""
        if self.is_full:
            return False
        self.inside += 1
        self._metrics.waiting.inc()
        return True

    def leave(self) -> None:
        """Release an admitted request."""
        self.inside -= 1
        self._metrics.waiting.dec()

    @contextlib.asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the request is processed."""
        async with self._work:
            self._metrics.waiting.dec()
            self._metrics.active.inc()
            try:
                yield
            finally:
                self._metrics.active.dec()
                self._metrics.waiting.inc()


class Admission:
    """ASGI middleware that limits the number of API requests, and the size and duration of their bodies."""

    def __init__(self, app: ASGIApp, limiter: RequestLimiter, limits: Limits) -> None:
        self._app, self._limiter, self._limits = app, limiter, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            return await self._app(scope, receive, send)
        if _declared_length(scope) > self._limits.upload_bytes:
            return await send_problem(scope, send, too_large(self._limits))
        if not self._limiter.enter():
            return await send_problem(scope, send, busy())
        try:
            await self._app(scope, _BoundedReceive(receive, self._limits), send)
        finally:
            self._limiter.leave()


class _BoundedReceive:
    """Receive channel that raises an error if a body is too large or too slow."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits = receive, limits
        self._bytes_left = limits.upload_bytes
        self._deadline = asyncio.get_running_loop().time() + limits.upload_seconds
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise too_slow(self._limits) from None
        if message["type"] == "http.request":
            self._bytes_left -= len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._bytes_left < 0:
                raise too_large(self._limits)
        return message


def _declared_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def busy() -> ProblemError:
    """Return the refusal of a request while the service is full."""
    return ProblemError(
        503,
        "busy",
        "The service is busy",
        "It has reached its limit of concurrent requests. Try again in a moment.",
        {"retry-after": str(RETRY_SECONDS)},
    )
