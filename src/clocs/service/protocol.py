"""HTTP at the edge: too many requests are refused before they are taken apart, and nothing slow is waited for.

A refusal by the application costs 0.6 ms, most of it in taking the request apart and making a task of it. At five times
the sustainable load that alone would fill a processor, so a full gate refuses here, with bytes that are nearly ready.

Refusals are paced. Otherwise a crowd that asks again as soon as it is refused would be refused in one round of the
event loop after another, and the few requests that are worked on would wait for each of these rounds: of 200 clients
the service answered a sixth as many a second as of 8.
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
from clocs.service.admission import PREFIX, Gate, busy
from clocs.service.boundary import note_request
from clocs.service.metrics import Metrics
from clocs.service.problems import MEDIA_TYPE

MOST_CONNECTIONS: Final = 512
LINGER_SECONDS: Final = 2.0
"""How long the rest of a refused body is swallowed before the connection is closed: many clients read an answer only
after all is sent. And how long a client may read nothing of an answer once the connection is to be closed."""
EARLY: Final = PREFIX.rstrip("/")
"""What metrics and logs call the address of a request that was not taken apart."""
PACE_SECONDS: Final = 0.01
PACE_STEPS: Final = 100
"""A step sends one of so many refusals that wait, and one at least. So they wait a second at most, however many."""
Seen = TypeVar("Seen")
_BEGINNING: Final = f"POST {PREFIX}".encode()


class Refusals:
    """Sends refusals a few at a time, so that requests that are worked on have their turn in between."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_pausing = False

    def add(self, refuse: Callable[[], None]) -> None:
        """Call ``refuse`` at once where none was sent within the last step, else in its turn."""
        self._waiting.append(refuse)
        if not self._is_pausing:
            self._step()

    def _step(self) -> None:
        self._is_pausing = bool(self._waiting)
        for _ in range(math.ceil(len(self._waiting) / PACE_STEPS)):
            self._waiting.popleft()()
        if self._is_pausing:
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._step)


def edge_protocol(head_seconds: float, gate: Gate, metrics: Metrics) -> type[H11Protocol]:
    """The protocol of a service; ``head_seconds``: for a request's head to be whole, or an answer to be read on."""
    refusals = Refusals()

    class Edge(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self._timers: dict[str, asyncio.TimerHandle] = {}
            self._refused = False
            super().connection_made(transport)
            self._later(head_seconds, self._watch, None)
            self._watch_reading_every(head_seconds)
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
                self._refuse_in_turn("POST")
            else:
                super().data_received(data)

        def timeout_keep_alive_handler(self) -> None:
            """A connection that is refused meanwhile has its own end."""
            if not self._refused:
                super().timeout_keep_alive_handler()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.SEND_BODY:
                self._later(LINGER_SECONDS, self._close_unfinished, self.cycle)

        def resume_writing(self) -> None:
            """What was written is nearly taken, and more will be: how much waits then says nothing about reading."""
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
            """Read nothing more until it is this connection's turn to be refused."""
            self._refused = True
            self._timers.pop("_watch").cancel()
            self.transport.pause_reading()
            asked = self.loop.time()
            refusals.add(lambda: self._refuse(method, asked))

        def _refuse(self, method: str, asked: float | None = None) -> None:
            """Answer, end our side, and swallow what comes until the client ends its own."""
            if self.transport.is_closing():
                return
            self._refused = True
            self.transport.resume_reading()
            request_id = secrets.token_hex(8)
            self.transport.write(_refusal(request_id))
            self.transport.write_eof()
            self._later(LINGER_SECONDS, self._close, None)
            waited = 0.0 if asked is None else self.loop.time() - asked
            note_request(metrics, EARLY, method, 503, waited, request_id)

        def _later(self, seconds: float, look: Callable[[Seen], None], seen: Seen) -> None:
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

        def _watch_reading_every(self, seconds: float) -> None:
            self._unread = math.inf
            self._later(seconds, self._watch_reading, seconds)

        def _watch_reading(self, seconds: float) -> None:
            """Break off where nothing of what waits to be sent was taken since the last look."""
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
    """The whole answer of a service that is busy."""
    problem = busy()
    body = problem.body(request_id)
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "cache-control": "no-store"}
    headers |= {**problem.headers, **SECURITY_HEADERS, "x-request-id": request_id, "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body
