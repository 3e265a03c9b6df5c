"""The web server over real sockets: slow clients, endless bodies and too many connections."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import time
from collections.abc import Iterator

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from clocs.service import protocol
from clocs.service.app import VIEWER
from tests.service.edge import Edge, edge
from tests.service.uploading import BOUNDARY, TOKEN, multipart
from tests.service.waiting import LOOK_SECONDS, WAIT_SECONDS, eventually

HEAD = (
    "POST /api/v1/preview HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: Bearer {TOKEN}\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n"
)
PART = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.csv"\r\n\r\n'.encode()
UNFINISHED = f"{HEAD}Content-Length: 1000\r\n\r\n".encode()
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT = 1.5
"""Seconds, of limits that a test waits for."""


def answer(connection: socket.socket) -> tuple[int, dict[str, object]]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read())


def ask(server: Edge, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, content


def upload(server: Edge, data: bytes) -> tuple[int, dict[str, str], bytes]:
    body, headers = multipart({"a.csv": data})
    return ask(server, "POST", "/api/v1/preview", body, **headers)


def test_a_body_that_says_it_is_too_large_is_refused_unsent() -> None:
    with edge() as server, server.connect(f"{HEAD}Content-Length: {2 << 30}\r\n\r\n".encode()) as connection:
        status, told = answer(connection)
    assert (status, told["type"]) == (413, "/problems/too-large")


def test_a_client_that_reads_only_after_it_sent_all_learns_why() -> None:
    with edge(upload_bytes=4 << 20) as server:
        status, _, body = upload(server, bytes(6 << 20))
    assert (status, json.loads(body)["type"]) == (413, "/problems/too-large")


def test_a_slow_body_is_refused() -> None:
    with edge(upload_seconds=SHORT) as server:
        started = time.monotonic()
        with server.connect(UNFINISHED + PART) as connection:
            status, told = answer(connection)
            assert (status, told["type"]) == (408, "/problems/too-slow")
            assert time.monotonic() - started > SHORT
            assert connection.recv(10) == b""  # the rest is not waited for


def test_a_slow_head_is_not_waited_for() -> None:
    with edge(head_seconds=SHORT) as server, server.connect(HEALTH[:30]) as connection:
        assert connection.recv(100) == b""


def test_a_slow_second_head_is_not_waited_for() -> None:
    with edge(head_seconds=SHORT) as server, server.connect(HEALTH + HEALTH[:30]) as connection:
        receive_upload = b""
        while piece := connection.recv(1000):
            receive_upload += piece
    assert receive_upload.count(b"HTTP/1.1 200 OK") == 1


ANSWERS = 40
UNREAD = b"GET /viewer/example.csv HTTP/1.1\r\nHost: localhost\r\n\r\n" * ANSWERS
"""Requests with responses larger than the buffers of both sides."""


@contextlib.contextmanager
def unread(server: Edge) -> Iterator[socket.socket]:
    """A client that asks, needs no token, and reads nothing."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(WAIT_SECONDS)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(UNREAD)
        yield connection


def holds(server: Edge, connection: socket.socket) -> bool:
    """Return True if the server keeps the connection open. A client that reads nothing does not notice its end."""
    return connection.getsockname() in {each.client for each in server.connections}


def test_a_client_that_does_not_read_is_cut_off_and_one_that_reads_slowly_is_not() -> None:
    with edge(head_seconds=SHORT) as server, unread(server) as never, unread(server) as slowly:
        eventually(lambda: holds(server, never))
        receive_upload = 0
        while holds(server, never):
            receive_upload += len(slowly.recv(1 << 14))
            time.sleep(LOOK_SECONDS)
        while receive_upload < ANSWERS * (VIEWER / "example.csv").stat().st_size:
            piece = slowly.recv(1 << 20)
            assert piece, "cut off, though it read"
            receive_upload += len(piece)


def test_invalid_http_is_refused() -> None:
    with edge() as server, server.connect(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n") as connection:
        assert b"400" in connection.recv(1000).split(b"\r\n")[0]


def test_an_aborted_body_releases_its_slot() -> None:
    with edge() as server:
        for _ in range(5):
            with server.connect(UNFINISHED + PART):
                eventually(lambda: server.limiter.inside == 1)
            eventually(lambda: server.limiter.inside == 0)


def test_excess_requests_are_refused_unparsed(caplog: pytest.LogCaptureFixture) -> None:
    """Two places, taken by bodies that do not end; the others are told when to try again."""
    with edge(upload_seconds=1000) as server, caplog.at_level(logging.INFO, "clocs.service"):
        with server.connect(UNFINISHED), server.connect(UNFINISHED):
            eventually(lambda: server.limiter.is_full)
            with server.connect(UNFINISHED) as refused:
                status, told = answer(refused)
            assert (status, told["type"]) == (503, "/problems/busy")
            status, headers, body = upload(server, b"1,2")
            assert (status, headers["retry-after"]) == (503, "1")
            assert json.loads(body)["instance"] == headers["x-request-id"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-type"] == "application/problem+json"
            assert ask(server, "GET", "/api/v1/map", authorization=f"Bearer {TOKEN}")[0] == 503
            assert ask(server, "GET", "/healthz")[0] == 200
            assert server.refusals() == 2
        eventually(lambda: server.limiter.inside == 0)
        assert upload(server, b"1,2")[0] == 200
    logged = [vars(record)["fields"] for record in caplog.records]
    assert headers["x-request-id"] in {fields.get("request_id") for fields in logged}


def test_a_refused_connection_is_not_ended_as_an_idle_one() -> None:
    """The web server's own timer of idle connections must not cut short what a refused client may still send."""
    with edge(upload_seconds=1000) as server, server.connect(HEALTH) as kept:
        assert answer(kept)[0] == 200
        with server.connect(UNFINISHED), server.connect(UNFINISHED):
            eventually(lambda: server.limiter.is_full)
            (mine,) = [each for each in server.connections if each.cycle.response_complete]
            kept.sendall(UNFINISHED)
            assert answer(kept)[0] == 503
            mine.timeout_keep_alive_handler()
            assert not mine.transport.is_closing()


def test_excess_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 8)
    with edge() as server:
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(server.connect())
            late = stack.enter_context(server.connect(HEALTH))
            assert answer(late)[0] == 503
        eventually(lambda: not server.connections)
        assert ask(server, "GET", "/healthz")[0] == 200


def test_one_connection_carries_many_requests() -> None:
    body, headers = multipart({"a.csv": b"1,2"})
    with edge() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_SECONDS)
        for _ in range(3):
            connection.request("POST", "/api/v1/preview", body, headers)
            reply = connection.getresponse()
            assert (reply.status, json.loads(reply.read())) == (200, {"size": 3})
        assert len(server.connections) == 1
        connection.close()


def test_nothing_private_of_the_web_server_is_used() -> None:
    """A newer version may change it without notice."""
    with open(protocol.__file__, encoding="utf-8") as file:
        text = file.read()
    private = [name for name in vars(H11Protocol) if name.startswith("_") and not name.startswith("__")]
    assert private
    assert [name for name in private if name in text] == []
