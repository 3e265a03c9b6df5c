"""Who is waited for while an answer is read: whoever has taken something of it since the last look."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from clocs.service.admission import Gate
from clocs.service.metrics import Metrics
from clocs.service.protocol import edge_protocol
from clocs.service.settings import Limits

RESUMED = -1


class Buffer(asyncio.Transport):
    """Where so many bytes wait to be sent."""

    waiting = 0
    aborted = False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    """Is asked nothing."""


@pytest.mark.parametrize(
    ("looks", "aborted"),
    [
        ((0, 0, 0), False),
        ((500, 499, 498), False),
        ((0, 500, 400, 0, 900), False),
        ((500, RESUMED, 600), False),
        ((500, 500), True),
        ((0, 500, 600), True),
        ((500, RESUMED, 600, 600), True),
    ],
)
def test_an_answer_is_broken_off_where_nothing_of_it_was_taken(looks: tuple[int, ...], aborted: bool) -> None:
    """By what waits at each look; between some, nearly all was taken and more was written."""

    async def scenario() -> bool:
        metrics, transport = Metrics(), Buffer()
        kind = edge_protocol(10.0, Gate(Limits(), metrics), metrics)
        config = uvicorn.Config(_application, ws="none", lifespan="off", log_config=None)
        edge: Any = kind(config, ServerState(), {})
        edge.connection_made(transport)
        for waiting in looks:
            if waiting == RESUMED:
                edge.resume_writing()
                continue
            assert not transport.aborted
            transport.waiting = waiting
            edge._watch_reading(10.0)
        for timer in edge._timers.values():
            timer.cancel()
        return transport.aborted

    assert asyncio.run(scenario()) is aborted
