"""Who is let in: decided from a request's head alone, so that a refusal costs next to nothing. Pure ASGI."""

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


class Gate:
    """Places for requests: some are worked on, some wait, the rest are refused."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._places = limits.active + limits.waiting
        self._work = asyncio.Semaphore(limits.active)
        self._metrics = metrics
        self.inside = 0

    @property
    def is_full(self) -> bool:
        return self.inside >= self._places

    def enter(self) -> bool:
        """Take a place, if there is one."""
        if self.is_full:
            return False
        self.inside += 1
        self._metrics.waiting.inc()
        return True

    def leave(self) -> None:
        """Give the place back."""
        self.inside -= 1
        self._metrics.waiting.dec()

    @contextlib.asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it."""
        async with self._work:
            self._metrics.waiting.dec()
            self._metrics.active.inc()
            try:
                yield
            finally:
                self._metrics.active.dec()
                self._metrics.waiting.inc()


class Admission:
    """Lets requests under /api in, as many as there are places; bounds the size of a body and the time it takes."""

    def __init__(self, app: ASGIApp, gate: Gate, limits: Limits) -> None:
        self._app, self._gate, self._limits = app, gate, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            return await self._app(scope, receive, send)
        if _declared(scope) > self._limits.upload_bytes:
            return await send_problem(scope, send, too_large(self._limits))
        if not self._gate.enter():
            return await send_problem(scope, send, busy())
        try:
            await self._app(scope, _Bounded(receive, self._limits), send)
        finally:
            self._gate.leave()


class _Bounded:
    """Receives a body until it is too large or too slow."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive, self._limits = receive, limits
        self._left = limits.upload_bytes
        self._deadline = asyncio.get_running_loop().time() + limits.upload_seconds
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise too_slow(self._limits) from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._left < 0:
                raise too_large(self._limits)
        return message


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def busy() -> ProblemError:
    """The refusal of a request that there is no place for."""
    return ProblemError(
        503,
        "busy",
        "The service is busy",
        "More requests are under way than it works on. Try again in a moment.",
        {"retry-after": str(RETRY_SECONDS)},
    )
