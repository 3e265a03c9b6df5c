"""HTTP at the edge: too many requests are refused before they are taken apart, and nothing slow is waited for.

A refusal by the application costs 0.6 ms, most of it in taking the request apart and making a task of it. At five times
the sustainable load that alone would fill a processor, so a full gate refuses here, with bytes that are nearly ready.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from clocs.service.access import SECURITY_HEADERS
from clocs.service.admission import PREFIX, Gate, busy
from clocs.service.boundary import note_request
from clocs.service.metrics import Metrics
from clocs.service.problems import MEDIA_TYPE

MOST_CONNECTIONS: Final = 512
LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is swallowed before the connection is closed: many clients read an answer only
after all is sent."""
EARLY: Final = PREFIX.rstrip("/")
"""What metrics and logs call the address of a request that was not taken apart."""
_BEGINNING: Final = f"POST {PREFIX}".encode()


def edge_protocol(head_seconds: float, gate: Gate, metrics: Metrics) -> type[H11Protocol]:
    """The protocol of a service; ``head_seconds``: for the head of a request to be whole."""

    class Edge(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._timers: dict[str, asyncio.TimerHandle] = {}
            self._refused = False
            super().connection_made(transport)
            self._later(head_seconds, self._watch, None)
            if len(self.connections) > MOST_CONNECTIONS:
                self._refuse("other")

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in self._timers.values():  # they would hold it, and what was read of it, for seconds
                timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            if gate.is_full and data.startswith(_BEGINNING) and self._between_requests():
                self._refuse("POST")
            else:
                super().data_received(data)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.SEND_BODY:
                self._later(LINGER_SECONDS, self._close_unfinished, self.cycle)

        def _between_requests(self) -> bool:
            last: object = self.cycle  # None before the first
            answered = last is None or self.cycle.response_complete
            return answered and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

        def _refuse(self, method: str) -> None:
            """Answer, end our side, and swallow what comes until the client ends its own."""
            self._refused = True
            request_id = secrets.token_hex(8)
            self._unset_keepalive_if_required()
            self.transport.write(_refusal(request_id))
            self.transport.write_eof()
            self._later(LINGER_SECONDS, self._close, None)
            note_request(metrics, EARLY, method, 503, 0.0, request_id)

        def _later(self, seconds: float, look: Callable[[object], None], seen: object) -> None:
            if look.__name__ in self._timers:
                self._timers[look.__name__].cancel()
            self._timers[look.__name__] = self.loop.call_later(seconds, look, seen)

        def _watch(self, before: object) -> None:
            """Close the connection where a head was begun, or the first one not even that, before the last look."""
            now: object = self.cycle  # of the last request whose head was whole
            begun = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
            if now is before and (now is None or begun):
                self._close(None)
            else:
                self._later(head_seconds, self._watch, now)

        def _close_unfinished(self, cycle: object) -> None:
            if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
                self._close(None)

        def _close(self, _: object) -> None:
            if not self.transport.is_closing():
                self.transport.close()

    return Edge


def _refusal(request_id: str) -> bytes:
    """The whole answer of a service that is busy."""
    problem = busy()
    body = problem.body(request_id)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "cache-control": "no-store"}
    headers |= {**problem.headers, **SECURITY_HEADERS, "x-request-id": request_id, "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body
