"""The protocol waits for clients that keep reading, and paces refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from clocs.service import protocol
from clocs.service.admission import RequestLimiter
from clocs.service.metrics import Metrics
from clocs.service.protocol import PACE_STEPS, PacedRefusals, edge_protocol
from clocs.service.settings import Limits

RESUMED = -1


class Buffer(asyncio.Transport):
    """Transport with a given number of unsent bytes."""

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
def test_a_response_that_is_not_read_is_aborted(looks: tuple[int, ...], aborted: bool) -> None:
    """The unsent bytes at each check decide; between some checks, nearly all was read and more was written."""

    async def scenario() -> bool:
        metrics, transport = Metrics(), Buffer()
        kind = edge_protocol(10.0, RequestLimiter(Limits(), metrics), metrics)
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


def test_refusals_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is sent at once; of the others so few in each round of the event loop that work goes on in between."""
    monkeypatch.setattr(protocol, "PACE_SECONDS", 0)

    async def scenario() -> tuple[list[int], list[int]]:
        refusals, sent, rounds = PacedRefusals(), list[int](), list[int]()
        for number in range(2 * PACE_STEPS):
            refusals.add(lambda number=number: sent.append(number))  # type: ignore[misc]
        rounds.append(len(sent))
        while len(sent) < 2 * PACE_STEPS:
            before = len(sent)
            await asyncio.sleep(0)
            rounds.append(len(sent) - before)
        return sent, rounds

    sent, rounds = asyncio.run(scenario())
    assert sent == list(range(2 * PACE_STEPS))
    assert rounds[0] == 1
    assert max(rounds) == 2


def test_after_a_pause_a_refusal_is_sent_at_once_again() -> None:
    async def scenario() -> None:
        refusals, sent = PacedRefusals(), asyncio.Event()
        refusals.add(sent.set)
        assert sent.is_set()
        while refusals._is_pausing:
            await asyncio.sleep(0)
        sent.clear()
        refusals.add(sent.set)
        assert sent.is_set()

    asyncio.run(scenario())
