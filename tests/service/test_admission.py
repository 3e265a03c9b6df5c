"""Requests are admitted by their heads; bodies are limited in size and time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clocs.service.admission import Admission, RequestLimiter
from clocs.service.metrics import Metrics
from clocs.service.problems import ProblemError
from clocs.service.settings import Limits


class Asking:
    """A request whose body comes in pieces, and what is answered."""

    def __init__(self, *pieces: bytes, path: str = "/api/v1/classify", **headers: str) -> None:
        self.scope = {
            "type": "http",
            "path": path,
            "method": "POST",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        }
        self._pieces = list(pieces)
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.read = 0

    async def receive(self) -> Any:
        piece = self._pieces.pop(0)
        self.read += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])

    async def through(self, admission: Admission) -> int:
        await admission(self.scope, self.receive, self.send)
        return self.status


class Trickling(Asking):
    """A request whose body comes byte by byte, without end."""

    async def receive(self) -> Any:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x", "more_body": True}


async def reads_all(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})


def admission(app: Any, **limits: Any) -> tuple[Admission, RequestLimiter]:
    chosen = Limits.model_validate({"upload_bytes": 1024, "active": 1, "waiting": 1, **limits})
    limiter = RequestLimiter(chosen, Metrics())
    return Admission(app, limiter, chosen), limiter


def test_excess_requests_are_refused_unread() -> None:
    async def scenario() -> None:
        leave = asyncio.Event()

        async def stays(scope: Any, receive: Any, send: Any) -> None:
            await leave.wait()
            await reads_all(scope, receive, send)

        wall, limiter = admission(stays)
        inside = [asyncio.create_task(Asking(b"x").through(wall)) for _ in range(2)]
        await asyncio.sleep(0)
        late = Asking(b"x")
        assert await late.through(wall) == 503
        assert late.headers[b"retry-after"] == b"1"
        assert late.read == 0
        leave.set()
        assert await asyncio.gather(*inside) == [200, 200]
        assert limiter.inside == 0
        assert await Asking(b"x").through(wall) == 200

    asyncio.run(scenario())


def test_a_slot_is_released_after_an_error() -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError

    async def scenario() -> None:
        wall, limiter = admission(fails)
        for _ in range(5):
            with pytest.raises(KeyError):
                await Asking(b"x").through(wall)
        assert limiter.inside == 0

    asyncio.run(scenario())


def test_a_declared_size_is_refused_at_once() -> None:
    wall, _ = admission(reads_all)
    asking = Asking(b"x", content_length="1025")
    assert asyncio.run(asking.through(wall)) == 413
    assert asking.read == 0


@pytest.mark.parametrize(("pieces", "fits"), [((b"x" * 512, b"x" * 512), True), ((b"x" * 512, b"x" * 513), False)])
def test_an_undeclared_size_is_refused_when_it_is_passed(pieces: tuple[bytes, ...], fits: bool) -> None:
    wall, _ = admission(reads_all)
    asking = Asking(*pieces, b"")
    if fits:
        assert asyncio.run(asking.through(wall)) == 200
        return
    with pytest.raises(ProblemError) as refusal:
        asyncio.run(asking.through(wall))
    assert refusal.value.status == 413


def test_a_body_that_trickles_is_refused_in_time() -> None:
    """Its pieces do not end: were only each of them timed, it would be read forever."""
    wall, _ = admission(reads_all, upload_bytes=1 << 30, upload_seconds=0.2)
    with pytest.raises(ProblemError) as refusal:
        asyncio.run(Trickling().through(wall))
    assert refusal.value.status == 408


def test_other_addresses_are_not_counted() -> None:
    async def scenario() -> None:
        wall, limiter = admission(reads_all, waiting=0)
        assert limiter.enter()
        assert await Asking(b"", path="/healthz").through(wall) == 200
        assert await Asking(b"", path="/api/v1/map").through(wall) == 503

    asyncio.run(scenario())


def test_active_requests_are_limited_and_counted() -> None:
    async def scenario() -> int:
        metrics = Metrics()
        limiter = RequestLimiter(Limits(active=2, waiting=10), metrics)
        most, pairs = 0, asyncio.Barrier(2)

        async def works() -> None:
            nonlocal most
            assert limiter.enter()
            async with limiter.work():
                await pairs.wait()
                most = max(most, int(metrics.active._value.get()))
            limiter.leave()

        await asyncio.gather(*(works() for _ in range(8)))
        assert metrics.active._value.get() == metrics.waiting._value.get() == 0
        return most

    assert asyncio.run(scenario()) == 2
