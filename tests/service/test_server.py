"""The service as a process: memory, open files, overload and shutdown."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from clocs.core.errors import ConfigError
from clocs.service.problems import ProblemError
from clocs.service.routes import ready
from clocs.service.server import run
from clocs.service.settings import ServiceSettings
from tests.service.samples import sample
from tests.service.serving import Reply, Served, served
from tests.service.test_api import problem
from tests.service.test_edge import HEAD, PART, UNREAD
from tests.service.uploading import TOKEN, multipart
from tests.service.waiting import WAIT_SECONDS, eventually

MEGABYTE = 1 << 20
CROWD, PAUSE_SECONDS = 200, 0.1


def restart_peak(pid: int) -> int:
    """Resident bytes of a process now, from where its peak is counted again."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return int(psutil.Process(pid).memory_info().rss)


def peak(pid: int) -> int:
    """The most resident bytes since then."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def send_without_end(server: Served) -> int:
    """Send a body in pieces until the connection is closed: the bytes that were taken."""
    piece, sent = bytes(MEGABYTE), 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT_SECONDS) as connection:
        connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(PART):x}\r\n".encode() + PART + b"\r\n")
        while True:
            try:
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            except ConnectionError:
                return sent
            sent += len(piece)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process's peak")
def test_a_body_without_end_is_cut_off_and_not_kept(open_handed: Served) -> None:
    """However much is sent, memory takes little more than the limit of 8 MiB; nor does a file."""
    send_without_end(open_handed)
    before = restart_peak(open_handed.process.pid)
    sent = send_without_end(open_handed)
    assert sent > 8 * MEGABYTE
    assert peak(open_handed.process.pid) - before < 64 * MEGABYTE
    assert open_handed.get("/healthz").status == 200


def test_files_left_open_are_none(open_handed: Served) -> None:
    """The uploads are large enough for temporary files."""
    for _ in range(3):
        open_handed.post("/api/v1/preview", {"a.csv": b"1" * (2 * MEGABYTE)})
    opened = [file.path for file in psutil.Process(open_handed.process.pid).open_files()]
    assert not [path for path in opened if "deleted" in path or path.startswith("/tmp/tmp")]


def test_an_idle_parsing_process_that_ends_harms_no_request(open_handed: Served, real_data: Path) -> None:
    """The system may run out of memory: another process is started, and no file is blamed."""
    files, ended = sample(real_data, "cpsc"), 'clocs_parsing_total{outcome="ended idle"}'
    before = open_handed.count(ended)
    assert open_handed.post("/api/v1/preview", files).status == 200
    (child,) = psutil.Process(open_handed.process.pid).children()
    child.kill()
    eventually(lambda: open_handed.count(ended) == before + 1)
    assert open_handed.post("/api/v1/preview", files).status == 200
    assert open_handed.get("/readyz").status == 200
    assert open_handed.count(ended) == before + 1


def test_without_a_parsing_process_it_is_not_ready() -> None:
    state: Any = SimpleNamespace(pool=SimpleNamespace(pids=[]))
    with pytest.raises(ProblemError) as refusal:
        asyncio.run(ready(state))
    assert (refusal.value.status, refusal.value.kind) == (503, "not-ready")


async def ask_until_answered(port: int, request: bytes, outcomes: Counter[int]) -> None:
    """Ask, and where the service is busy, again in a moment."""
    status = 0
    while status != 200:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        await reader.readexactly(int(fields["content-length"]))
        writer.close()
        status = int(head.split(" ", 2)[1])
        outcomes[status] += 1
        if status == 503:
            await asyncio.sleep(PAUSE_SECONDS)


def test_every_client_of_a_crowd_gets_a_response(open_handed: Served, real_data: Path) -> None:
    """200 clients at once, 8 places: no connection fails, and what the service says it did is what they saw."""
    body, headers = multipart(sample(real_data, "cinc2017"))
    lines = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    request = f"POST /api/v1/preview HTTP/1.1\r\n{head}\r\n".encode() + body
    outcomes: Counter[int] = Counter()
    answered = 'clocs_requests_total{endpoint="/api/v1/preview",status="200"}'
    refused = [f'clocs_requests_total{{endpoint="{name}",status="503"}}' for name in ("/api", "other")]
    before = open_handed.count(answered), sum(map(open_handed.count, refused))

    async def crowd() -> None:
        await asyncio.gather(*(ask_until_answered(open_handed.port, request, outcomes) for _ in range(CROWD)))

    asyncio.run(crowd())
    assert set(outcomes) <= {200, 503}
    assert outcomes[200] == open_handed.count(answered) - before[0] == CROWD
    assert outcomes[503] == sum(map(open_handed.count, refused)) - before[1]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Set environment variables that ask the web framework to send telemetry to this socket."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        listening.setblocking(False)
        yield listening


class Crowd:
    """Clients that ask without pause until the service is gone."""

    def __init__(self, running: Served, files: dict[str, bytes]) -> None:
        self.replies: list[Reply] = []
        self.many = threading.Event()
        self._running, self._request = running, multipart(files)
        self._threads = [threading.Thread(target=self._ask) for _ in range(6)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        body, headers = self._request
        while True:
            connection = self._running.connect()
            try:
                connection.request("POST", "/api/v1/classify", body, headers)
                reply = connection.getresponse()
                self.replies.append(Reply(reply.status, {}, reply.read()))
            except ConnectionRefusedError:
                return
            except (ConnectionError, http.client.HTTPException):
                pass  # closed before the request was accepted
            finally:
                connection.close()
            if len(self.replies) >= 20:
                self.many.set()

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_SECONDS)


def test_a_service_without_an_index_says_so_and_at_its_end_answers_what_it_accepted(
    tmp_path: Path, real_data: Path, collector: socket.socket
) -> None:
    """Several clients ask without pause while the whole group gets the signal, as systemd sends it; one that does not
    read its answers is not waited for. And while it ran, it told nobody."""
    limits = {"parsing_processes": 2, "active": 2, "waiting": 16}
    with served(limits, audit_log=str(tmp_path / "x.jsonl")) as running:
        model = running.get("/api/v1/model").json()
        assert (model["index"], model["multi_label"]) == (None, True)
        problem(running.get("/api/v1/map"), 404, "not-found")
        problem(running.post("/api/v1/similar", sample(real_data, "scp")), 404, "not-found")
        with socket.create_connection(("127.0.0.1", running.port)) as unread:
            unread.sendall(UNREAD)
            crowd = Crowd(running, sample(real_data, "cpsc"))
            assert crowd.many.wait(WAIT_SECONDS)
            pid = running.process.pid
            for process in [psutil.Process(pid), *psutil.Process(pid).children()]:
                os.kill(process.pid, signal.SIGTERM)
            assert running.process.wait(WAIT_SECONDS) == 0
            crowd.wait()
    accepted = [line for line in map(json.loads, running.log) if line.get("endpoint") == "/api/v1/classify"]
    assert {reply.status for reply in crowd.replies} == {200}
    assert all(json.loads(reply.body)["classes"] for reply in crowd.replies)
    assert len(accepted) == len(crowd.replies)
    assert not psutil.pid_exists(pid)
    assert json.loads(running.log[-1])["event"] == "stopped"
    with pytest.raises(BlockingIOError):
        collector.accept()


def test_a_used_port_gives_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"Cannot listen on 127.0.0.1:{port}: Address already in use. Pass another port"
        with pytest.raises(ConfigError, match=said):
            run(ServiceSettings(open_access=True, port=port, audit_log=Path("unused")))


@pytest.mark.parametrize(
    ("host", "reason"),
    [("192.0.2.1", "Cannot assign requested address"), ("nosuchhost", "Name or service not known")],
)
def test_a_foreign_address_gives_an_error(host: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """192.0.2.1 is nobody's (RFC 5737); no name is looked up in the network."""
    look_up = socket.getaddrinfo

    def offline(name: str, port: int, **options: Any) -> Any:
        if name == "nosuchhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(name, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    settings = ServiceSettings(host=host, token=SecretStr(TOKEN), audit_log=Path("unused"))
    with pytest.raises(ConfigError, match=f"Cannot listen on {host}:8000: {reason}. Pass .* with --host"):
        run(settings)
