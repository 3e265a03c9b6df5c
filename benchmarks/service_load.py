"""The second process of ``service.py``: sends requests to a service, or does the same work without one.

    python benchmarks/service_load.py clients FOLDER PORT TOKEN
    python benchmarks/service_load.py bare FOLDER ENCODER
    python benchmarks/service_load.py pool FOLDER ENCODER

All read one JSON object a line from their input and answer each with one: how long, how many, what came of it.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

MOST = 200_000
"""Requests of one measurement."""
TIMEOUT_SECONDS = 30.0
BOUNDARY = "boundary-of-a-benchmark"
REQUEST_ID = "request-of-a-benchmark"


def files_in(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def processor_seconds_of(pid: int | None = None) -> float:
    """Return the processor time of a process and its children, including those that ended."""
    main = psutil.Process(pid)
    own = main.cpu_times()
    others = [child.cpu_times() for child in main.children()]
    ended: float = own.children_user + own.children_system
    return ended + sum(each.user + each.system for each in (own, *others))


class Bare:
    """The same parsing, framing, model and reply in this process, without HTTP."""

    def __init__(self, folder: str, encoder: str) -> None:
        import torch

        from clocs.inference.pretrained import load_encoder
        from clocs.service.parsing.reading import read_upload
        from clocs.service.replies import classes_reply

        torch.set_num_threads(1)
        loaded, files = load_encoder(encoder), files_in(folder)
        self._once: Callable[[], str] = lambda: classes_reply(
            loaded.classify(read_upload(files)), REQUEST_ID
        ).model_dump_json(exclude_unset=True)
        self.measure({"seconds": 1.0})

    def measure(self, asked: dict[str, Any]) -> dict[str, Any]:
        times: list[float] = []
        started, used = time.perf_counter(), time.process_time()
        while time.perf_counter() - started < asked["seconds"] and len(times) < MOST:
            before = time.perf_counter()
            self._once()
            times.append(time.perf_counter() - before)
        return {
            "times": times,
            "processor": time.process_time() - used,
            "seconds": time.perf_counter() - started,
        }


class Pool:
    """The parsing processes, threads and model of the service, without HTTP."""

    def __init__(self, folder: str, encoder: str) -> None:
        self._folder, self._encoder = folder, encoder
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        import torch

        from clocs.inference.pretrained import load_encoder
        from clocs.service.inference import WorkerThreads
        from clocs.service.parsing.confinement_check import check_confinement
        from clocs.service.parsing.pool import ParsingPool
        from clocs.service.settings import Limits

        torch.set_num_threads(1)
        limits, self._loaded = Limits(), load_encoder(self._encoder)
        self._pool, self._threads = ParsingPool(limits, check_confinement()), WorkerThreads(limits.active)
        await asyncio.gather(self._pool.open(), self._threads.warm_up(self._loaded))

    def measure(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._loop.run_until_complete(self._in_turn(**asked))

    async def _in_turn(self, clients: int, seconds: float) -> dict[str, Any]:
        from clocs.service.replies import classes_reply
        from clocs.service.uploads import Upload

        files = files_in(self._folder)
        sizes = tuple((name, len(data)) for name, data in files.items())
        times: list[float] = []
        started, used = time.perf_counter(), processor_seconds_of()

        async def client() -> None:
            while time.perf_counter() - started < seconds and len(times) < MOST:
                before = time.perf_counter()
                recording = await self._pool.recording(Upload(io.BytesIO(b"".join(files.values())), sizes, ""))
                found = await self._threads.run(self._loaded.classify, recording)
                classes_reply(found, REQUEST_ID).model_dump_json(exclude_unset=True)
                times.append(time.perf_counter() - before)

        await asyncio.gather(*(client() for _ in range(clients)))
        return {
            "times": times,
            "processor": processor_seconds_of() - used,
            "seconds": time.perf_counter() - started,
        }


class _Connection(asyncio.Protocol):
    """A connection that sends one request after another with little work."""

    answered: asyncio.Future[int | str]
    last = False
    """The other side closes after this answer."""

    def __init__(self, request: bytes) -> None:
        self._request, self._got = request, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self) -> asyncio.Future[int | str]:
        self._got, self.answered = b"", asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        return self.answered

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.lower().partition(b"\r\n\r\n")
        if end and len(body) >= int(head.partition(b"content-length: ")[2].split(b"\r", 1)[0]):
            self.last = b"connection: close" in head
            self.answered.set_result(int(head.split(b" ", 2)[1]))

    def connection_lost(self, error: Exception | None) -> None:
        self.last = True
        if not self.answered.done():
            self.answered.set_result("broken off")

    def close(self) -> None:
        self._transport.abort()


class Clients:
    """Several clients over loopback."""

    def __init__(self, folder: str, port: str, token: str) -> None:
        self._port = int(port)
        disposition = 'Content-Disposition: form-data; name="files"; filename='
        parts = [
            f'--{BOUNDARY}\r\n{disposition}"{name}"\r\n\r\n'.encode() + data + b"\r\n"
            for name, data in files_in(folder).items()
        ]
        body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
        head = (
            f"POST /api/v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body

    def measure(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Send requests at a fixed rate with ``requests_per_second``, or by a number of ``clients`` without a pause."""
        return asyncio.run(self._at_rate(**asked) if "requests_per_second" in asked else self._in_turn(**asked))

    async def _in_turn(self, clients: int, seconds: float) -> dict[str, Any]:
        """Measure until the last answer that is not a refusal."""
        answers: list[Any] = []
        started, used = time.perf_counter(), time.process_time()
        last = started

        async def client() -> None:
            nonlocal last
            while time.perf_counter() - started < seconds and len(answers) < MOST:
                try:
                    streams = await asyncio.open_connection("127.0.0.1", self._port)
                    while time.perf_counter() - started < seconds and len(answers) < MOST:
                        async with asyncio.timeout(TIMEOUT_SECONDS):
                            *answer, is_last = await self._ask(*streams)
                        answers.append(answer)
                        last = time.perf_counter() if answer[0] == 200 else last
                        if is_last:
                            break
                    streams[1].close()
                except ConnectionRefusedError:
                    return
                except (OSError, EOFError) as error:
                    answers.append((type(error).__name__, 0.0, ""))

        await asyncio.gather(*(client() for _ in range(clients)))
        return {"answers": answers, "processor": time.process_time() - used, "seconds": last - started}

    async def _at_rate(self, requests_per_second: float, seconds: float, keep: bool) -> dict[str, Any]:
        answers: list[Any] = []
        idle: list[_Connection] = []
        loop, used = asyncio.get_running_loop(), time.process_time()

        async def once() -> None:
            before = time.perf_counter()
            try:
                while idle and idle[-1].last:
                    idle.pop()
                connection = idle.pop() if idle else await self._connected(loop)
                status = await connection.ask()
                if keep and not connection.last:
                    idle.append(connection)
                else:
                    connection.close()
            except OSError as error:
                status = type(error).__name__
            answers.append((status, time.perf_counter() - before, ""))

        started, tasks = time.perf_counter(), []
        for number in range(min(MOST, int(requests_per_second * seconds))):
            await asyncio.sleep(max(0.0, started + number / requests_per_second - time.perf_counter()))
            tasks.append(asyncio.create_task(once()))
        spent = time.perf_counter() - started
        await asyncio.gather(*tasks)
        return {"answers": answers, "seconds": spent, "processor": time.process_time() - used}

    async def _connected(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        return (await loop.create_connection(lambda: _Connection(self._request), "127.0.0.1", self._port))[1]

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, float, str, bool]:
        """Return status, seconds, request id, and whether the connection ends."""
        before = time.perf_counter()
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        await reader.readexactly(int(fields["content-length"]))
        status, is_last = int(head.split(" ", 2)[1]), fields.get("connection") == "close"
        return status, time.perf_counter() - before, fields.get("x-request-id", ""), is_last


def main() -> None:
    kinds: dict[str, type[Bare | Pool | Clients]] = {"bare": Bare, "pool": Pool, "clients": Clients}
    worker = kinds[sys.argv[1]](*sys.argv[2:])
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.measure(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
