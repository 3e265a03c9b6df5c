"""The service over real sockets: slow and endless bodies, too many requests, and an orderly end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import SecretStr

from clocs.core.errors import ConfigError
from clocs.service.protocol import MOST_CONNECTIONS
from clocs.service.server import run
from clocs.service.settings import ServiceSettings
from tests.service.samples import sample
from tests.service.serving import Reply, Served, served
from tests.service.uploading import BOUNDARY, TOKEN, multipart

HEAD = (
    "POST /api/v1/preview HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
)
PART = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\n'.encode()


@contextlib.contextmanager
def connected(server: Served, head: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head.encode() + b"\r\n")
        yield connection


def answer(connection: socket.socket) -> tuple[int, dict[str, object]]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


def memory(server: Served) -> int:
    """Resident bytes of the service."""
    return int(psutil.Process(server.process.pid).memory_info().rss)


def test_a_body_that_says_it_is_too_large_is_refused_unsent(strict: Served) -> None:
    started = time.monotonic()
    with connected(strict, HEAD + f"Content-Length: {2 << 30}\r\n") as connection:
        status, told = answer(connection)
    assert (status, told["type"]) == (413, "/problems/too-large")
    assert time.monotonic() - started < 5


def send_for(seconds: float, connection: socket.socket, piece: bytes) -> None:
    """The same again and again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection.sendall(piece)


def test_a_body_without_end_is_cut_off(strict: Served) -> None:
    """Sent in pieces without a length: neither memory nor disk takes more than the limit, and the end comes soon."""
    before = memory(strict)
    piece = bytes(1 << 20)
    with connected(strict, HEAD + "Transfer-Encoding: chunked\r\n") as connection:
        connection.sendall(f"{len(PART):x}\r\n".encode() + PART + b"\r\n")
        with pytest.raises(ConnectionError):
            send_for(30, connection, f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    assert memory(strict) - before < 32 << 20
    assert strict.get("/healthz").status == 200


def test_a_client_that_reads_only_after_it_sent_all_learns_why(strict: Served) -> None:
    body, headers = multipart({"a.csv": bytes(6 << 20)})
    reply = strict.ask("POST", "/api/v1/preview", body, headers)
    assert (reply.status, reply.json()["type"]) == (413, "/problems/too-large")


def test_a_slow_body_is_refused_in_time(strict: Served) -> None:
    started = time.monotonic()
    with connected(strict, HEAD + "Content-Length: 1000\r\n") as connection:
        connection.sendall(PART)
        status, told = answer(connection)
        assert (status, told["type"]) == (408, "/problems/too-slow")
        assert 1.2 < time.monotonic() - started < 10
        connection.settimeout(10)
        assert connection.recv(10) == b""  # the rest is not waited for


def test_a_slow_head_is_not_waited_for(strict: Served) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=15) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert connection.recv(100) == b""


def test_nor_is_a_slow_second_head(strict: Served) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=15) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: loc")
        received = b""
        while piece := connection.recv(1000):
            received += piece
        assert received.count(b"HTTP/1.1 200 OK") == 1


UNREAD = b"GET /viewer/example.csv HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40
"""More than the buffers of both sides hold."""


@contextlib.contextmanager
def unread(server: Served) -> Iterator[socket.socket]:
    """A client that asks, needs no token, and reads nothing."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(UNREAD)
        yield connection


def holds(server: Served, connection: socket.socket) -> bool:
    """Whether the service has the connection open."""
    own = connection.getsockname()[1]
    return any(each.raddr and each.raddr.port == own for each in psutil.Process(server.process.pid).net_connections())


def test_nor_is_a_client_that_does_not_read(strict: Served) -> None:
    """One that reads slowly meanwhile is."""
    with unread(strict) as never, unread(strict) as slowly:
        slowly.settimeout(10)
        received, started = 0, time.monotonic()
        while (seconds := time.monotonic() - started) < 4:
            if received < seconds * (3 << 19):
                received += len(slowly.recv(1 << 16))
            else:
                time.sleep(0.01)
        assert not holds(strict, never)
        assert holds(strict, slowly)


def test_what_is_no_http_is_refused(strict: Served) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=15) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n")
        assert b"400" in connection.recv(1000).split(b"\r\n")[0]


def test_a_body_that_breaks_off_leaves_nothing(strict: Served) -> None:
    for _ in range(5):
        with connected(strict, HEAD + "Content-Length: 100000\r\n") as connection:
            connection.sendall(PART)
    _eventually_free(strict)


def _eventually_free(server: Served) -> None:
    """All places are given back."""
    for _ in range(100):
        text = server.get("/metrics").body.decode()
        if "clocs_requests_waiting 0.0" in text and "clocs_requests_active 0.0" in text:
            return
        time.sleep(0.1)
    raise AssertionError(text)


def test_beyond_its_places_it_refuses_at_once_and_unread(strict: Served, real_data: Path) -> None:
    """Two places, taken by bodies that do not end; the third is told when to try again."""
    _eventually_free(strict)
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connected(strict, HEAD + "Content-Length: 1000\r\n"))
        time.sleep(0.3)
        refused = stack.enter_context(connected(strict, HEAD + "Content-Length: 1000\r\n"))
        status, told = answer(refused)
        assert (status, told["type"]) == (503, "/problems/busy")
        full = strict.post("/api/v1/preview", sample(real_data, "chapman-csv"))
        assert (full.status, full.headers["retry-after"]) == (503, "1")
        assert full.json()["instance"] == full.headers["x-request-id"]
        assert full.headers["x-content-type-options"] == "nosniff"
        assert full.headers["content-type"] == "application/problem+json"
        assert strict.get("/api/v1/map").status == 503
        assert strict.get("/healthz").status == 200
    _eventually_free(strict)
    assert strict.post("/api/v1/preview", sample(real_data, "chapman-csv")).status == 200
    assert 'clocs_requests_total{endpoint="/api",status="503"} 2.0' in strict.get("/metrics").body.decode()
    assert [line for line in strict.log if full.headers["x-request-id"] in line]


def test_beyond_its_connections_it_refuses_too(strict: Served) -> None:
    with contextlib.ExitStack() as stack:
        place = ("127.0.0.1", strict.port)
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(place, timeout=30))
        late = stack.enter_context(socket.create_connection(place, timeout=30))
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer(late)[0] == 503
    for _ in range(50):
        with contextlib.suppress(OSError, http.client.HTTPException):
            if strict.get("/healthz").status == 200:
                return
        time.sleep(0.2)
    raise AssertionError("it does not recover")


def test_one_connection_carries_many_requests(strict: Served, real_data: Path) -> None:
    body, headers = multipart(sample(real_data, "cpsc"))
    connection = strict.connect()
    for _ in range(3):
        connection.request("POST", "/api/v1/classify", body, headers)
        reply = connection.getresponse()
        assert (reply.status, len(reply.read()) > 100) == (200, True)
    connection.close()


def test_a_parsing_process_that_ends_idle_is_nobodys_fault(strict: Served, real_data: Path) -> None:
    """As where the system runs out of memory: until another is there it is not ready, and no file is blamed."""
    files = sample(real_data, "cpsc")
    assert strict.post("/api/v1/preview", files).status == 200
    (child,) = psutil.Process(strict.process.pid).children()
    child.kill()
    for _ in range(100):
        if (reply := strict.get("/readyz")).status == 503:
            break
        time.sleep(0.02)
    assert (reply.status, reply.json()["type"]) == (503, "/problems/not-ready")
    assert strict.post("/api/v1/preview", files).status == 200
    assert strict.get("/readyz").status == 200
    assert 'clocs_parsing_total{outcome="ended idle"} 1.0' in strict.get("/metrics").body.decode()


def test_files_left_open_are_none(strict: Served, real_data: Path) -> None:
    """Of uploads large enough for a temporary file."""
    for _ in range(3):
        strict.post("/api/v1/preview", {"a.csv": b"1" * (2 << 20)})
    time.sleep(0.2)
    opened = [file.path for file in psutil.Process(strict.process.pid).open_files()]
    assert not [path for path in opened if "deleted" in path or path.startswith("/tmp/tmp")]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where variables of the environment ask the web framework to send telemetry."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{listening.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        listening.settimeout(1)
        yield listening


def test_at_its_end_it_answers_what_it_accepted(
    demo: Path, tmp_path: Path, real_data: Path, collector: socket.socket
) -> None:
    """Several clients ask without pause while the whole group gets the signal, as systemd sends it; one that does not
    read its answers is not waited for. And while it ran, it told nobody."""
    files = sample(real_data, "cpsc")
    replies: list[Reply] = []
    cut: list[str] = []
    body, headers = multipart(files)

    def ask(running: Served, done: threading.Event) -> None:
        while not done.is_set():
            connection = running.connect()
            try:
                connection.request("POST", "/api/v1/classify", body, headers)
                reply = connection.getresponse()
                replies.append(Reply(reply.status, {}, reply.read(), 0))
            except ConnectionRefusedError:
                return
            except (ConnectionError, http.client.HTTPException) as error:
                cut.append(type(error).__name__)
            finally:
                connection.close()

    limits = {"parsing_processes": 2, "active": 2, "waiting": 16}
    with served(limits, index=str(demo / "index"), audit_log=str(tmp_path / "x.jsonl")) as running, unread(running):
        done = threading.Event()
        clients = [threading.Thread(target=ask, args=(running, done)) for _ in range(6)]
        for client in clients:
            client.start()
        while len(replies) < 20:
            time.sleep(0.01)
        pid = running.process.pid
        for process in [psutil.Process(pid), *psutil.Process(pid).children()]:
            os.kill(process.pid, signal.SIGTERM)
        assert running.process.wait(60) == 0
        done.set()
        for client in clients:
            client.join(30)
        accepted = [line for line in map(json.loads, running.log) if line.get("endpoint") == "/api/v1/classify"]
    assert [reply.status for reply in replies] == [200] * len(replies)
    assert all(json.loads(reply.body)["classes"] for reply in replies)
    assert len(accepted) == len(replies)
    assert not psutil.pid_exists(pid)
    assert json.loads(running.log[-1])["event"] == "stopped"
    with pytest.raises(TimeoutError):
        collector.accept()


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port"
        with pytest.raises(ConfigError, match=said):
            run(ServiceSettings(open_access=True, port=port, audit_log=Path("unused")))


@pytest.mark.parametrize(
    ("host", "reason"),
    [("192.0.2.1", "Cannot assign requested address"), ("nosuchhost", "Name or service not known")],
)
def test_an_address_that_is_not_this_machines_is_said(host: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """192.0.2.1 is nobody's (RFC 5737); no name is looked up in the network."""
    look_up = socket.getaddrinfo

    def offline(name: str, port: int, **options: Any) -> Any:
        if name == "nosuchhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(name, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    settings = ServiceSettings(host=host, token=SecretStr(TOKEN), audit_log=Path("unused"))
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:8000: {reason}. Choose .* with --host"):
        run(settings)
