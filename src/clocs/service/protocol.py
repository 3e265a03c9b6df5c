"""HTTP protocol that refuses excess requests before parsing them, and closes slow connections.

A refusal by the application costs 0.6 ms, mostly for parsing the request and creating a task. At five times the
sustainable load, refusals alone would occupy a processor. While the service is full, this protocol sends a prepared
response instead.

Refusals are paced. Otherwise clients that retry at once would be refused in every round of the event loop, and active
requests would wait for these rounds. Without pacing, 200 clients got a sixth of the throughput of 8 clients.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from clocs.service.access import SECURITY_HEADERS
from clocs.service.admission import PREFIX, RequestLimiter, busy
from clocs.service.metrics import Metrics
from clocs.service.outer_middleware import record_request
from clocs.service.problems import MEDIA_TYPE

MAX_CONNECTIONS: Final = 512
LINGER_SECONDS: Final = 2.0
"""Time in seconds for which the rest of a refused body is discarded before the connection is closed, because many
clients read a response only after sending everything. It also limits the time for which a client may stop reading a
response.
"""
EARLY_ENDPOINT: Final = PREFIX.rstrip("/")
"""Endpoint name in metrics and logs for requests that were refused unparsed."""
PACE_SECONDS: Final = 0.01
PACE_STEPS: Final = 100
"""Each step sends this fraction of the waiting refusals, at least one. A refusal therefore waits at most one second."""
Seen = TypeVar("Seen")
_REQUEST_START: Final = f"POST {PREFIX}".encode()


class PacedRefusals:
    """Queue that sends refusals in small steps, so that active requests run in between."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_pausing = False

    def add(self, refuse: Callable[[], None]) -> None:
        """Call ``refuse`` at once if no refusal was sent within the last step, otherwise later."""
        self._waiting.append(refuse)
        if not self._is_pausing:
            self._step()

    def _step(self) -> None:
        self._is_pausing = bool(self._waiting)
        for _ in range(math.ceil(len(self._waiting) / PACE_STEPS)):
            self._waiting.popleft()()
        if self._is_pausing:
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._step)


def edge_protocol(head_seconds: float, limiter: RequestLimiter, metrics: Metrics) -> type[H11Protocol]:
    """Return the protocol class of a service.

    Args:
        head_seconds: Time limit in seconds for a request head, and for a client that stops reading a response.
        limiter: Limit on the number of requests.
        metrics: Metrics of the service.

    Returns:
        A protocol class for uvicorn.
    """
    refusals = PacedRefusals()

    class Edge(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._timers: dict[str, asyncio.TimerHandle] = {}
            self._refused = False
            super().connection_made(transport)
            self._later(head_seconds, self._watch, None)
            self._watch_reading_every(head_seconds)
            if len(self.connections) > MAX_CONNECTIONS:
                self._refuse("other")

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in self._timers.values():  # they would hold it, and what was read of it, for seconds
                timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            if limiter.is_full and data.startswith(_REQUEST_START) and self._between_requests():
                self._refuse_in_turn("POST")
            else:
                super().data_received(data)

        def timeout_keep_alive_handler(self) -> None:
            """Keep a connection open that is being refused; it is closed separately."""
            if not self._refused:
                super().timeout_keep_alive_handler()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.SEND_BODY:
                self._later(LINGER_SECONDS, self._close_unfinished, self.cycle)

        def resume_writing(self) -> None:
            """Reset the reading watch, because the write buffer is nearly empty and will be filled again."""
            super().resume_writing()
            self._unread = math.inf

        def shutdown(self) -> None:
            super().shutdown()
            self._watch_reading_every(LINGER_SECONDS)

        def _between_requests(self) -> bool:
            last: object = self.cycle  # None before the first
            answered = last is None or self.cycle.response_complete
            return answered and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

        def _refuse_in_turn(self, method: str) -> None:
            """Stop reading until this connection's refusal is due."""
            self._refused = True
            self._timers.pop("_watch").cancel()
            self.transport.pause_reading()
            asked = self.loop.time()
            refusals.add(lambda: self._refuse(method, asked))

        def _refuse(self, method: str, asked: float | None = None) -> None:
            """Send the refusal, close the sending side, and discard input until the client closes."""
            if self.transport.is_closing():
                return
            self._refused = True
            self.transport.resume_reading()
            request_id = secrets.token_hex(8)
            self.transport.write(_refusal(request_id))
            self.transport.write_eof()
            self._later(LINGER_SECONDS, self._close, None)
            waited = 0.0 if asked is None else self.loop.time() - asked
            record_request(metrics, EARLY_ENDPOINT, method, 503, waited, request_id)

        def _later(self, seconds: float, look: Callable[[Seen], None], seen: Seen) -> None:
            if look.__name__ in self._timers:
                self._timers[look.__name__].cancel()
            self._timers[look.__name__] = self.loop.call_later(seconds, look, seen)

        def _watch(self, before: object) -> None:
            """Close the connection if no request head was completed since the last check."""
            now: object = self.cycle  # of the last request whose head was whole
            begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
            if now is before and (now is None or begun):
                self._close(None)
            else:
                self._later(head_seconds, self._watch, now)

        def _watch_reading_every(self, seconds: float) -> None:
            self._unread = math.inf
            self._later(seconds, self._watch_reading, seconds)

        def _watch_reading(self, seconds: float) -> None:
            """Abort the connection if the client read nothing since the last check."""
            before, self._unread = self._unread, self.transport.get_write_buffer_size()
            if 0 < before <= self._unread:
                self.transport.abort()
            else:
                self._later(seconds, self._watch_reading, seconds)

        def _close_unfinished(self, cycle: object) -> None:
            if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
                self._close(None)

        def _close(self, _: object) -> None:
            if not self.transport.is_closing():
                self.transport.close()
                self._watch_reading_every(LINGER_SECONDS)

    return Edge


def _refusal(request_id: str) -> bytes:
    """Return the complete HTTP response of a busy service."""
    problem = busy()
    body = problem.body(request_id)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "cache-control": "no-store"}
    headers |= {**problem.headers, **SECURITY_HEADERS, "x-request-id": request_id, "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body
