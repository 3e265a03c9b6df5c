"""A proxy before an S3 server that injects faults: errors of the server, lost answers, slow answers, expired tokens."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SLOW_SECONDS = 0.3
CREDENTIALS = "/credentials"
"""Path at which the proxy hands out tokens, as the endpoint of a container does."""
_KEY = re.compile(r"Credential=([^/]+)/")
Fault = Callable[[int, str], str]
"""Function from the number of a request, from 1, and its verb to ``""``, ``503``, ``lost``, ``cut`` or ``slow``."""


class FaultProxy:
    """Proxy on a port of its own, which forwards requests unchanged unless a fault is due.

    Args:
        port: Port of the server.
        fault: Decides which requests fail, and how.
        keys: Access keys and secrets that it hands out in turn.
        token_seconds: Time after which a token is refused; None if tokens do not expire.
        certificate: File with a certificate and its key, to speak TLS.
    """

    def __init__(
        self,
        port: int,
        fault: Fault,
        keys: list[tuple[str, str]] | None = None,
        token_seconds: float | None = None,
        certificate: Path | None = None,
    ) -> None:
        self.injected: Counter[str] = Counter()
        self.refused_tokens, self.used_keys = 0, list[str]()
        self._port, self._fault, self._keys, self._seconds = port, fault, keys or [], token_seconds
        self._issued: dict[str, float] = {}
        self._count, self._lock = 0, threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == CREDENTIALS:
            return _answer(request, 200, json.dumps(self._new_token()).encode(), {"Content-Type": "application/json"})
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        with self._lock:
            self._count += 1
            fault = self._fault(self._count, request.command)
            self.injected[fault] += 1
        if self._is_expired(request):
            self.refused_tokens += 1
            return _answer(request, 403, b"<Error><Code>ExpiredToken</Code></Error>", {})
        if fault == "503":
            return _answer(request, 503, b"<Error><Code>SlowDown</Code></Error>", {})
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        status, headers, content = self._forward(request, body)
        if fault == "lost":
            request.close_connection = True
            return None
        if fault == "cut" and request.command == "GET" and len(content) > 1:
            request.close_connection = True
            return _answer(request, status, content, headers, send=len(content) // 2)
        return _answer(request, status, content, headers)

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        server = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            server.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():  # with the host that the client has signed
                server.putheader(name, value)
            server.endheaders(body)
            found = server.getresponse()
            headers = {name: value for name, value in found.getheaders() if name.lower() not in ("connection", "date")}
            return found.status, headers, found.read()
        except OSError:
            return 502, {}, b""  # the server is down
        finally:
            server.close()

    def _new_token(self) -> dict[str, str]:
        with self._lock:
            key, secret = self._keys[len(self._issued) % len(self._keys)]
            self._issued[key] = time.monotonic()
        expires = datetime.now(UTC) + timedelta(seconds=self._seconds or 3600)
        names = {"AccessKeyId": key, "SecretAccessKey": secret, "Token": ""}
        return {**names, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def _is_expired(self, request: BaseHTTPRequestHandler) -> bool:
        found = _KEY.search(request.headers.get("Authorization", ""))
        key = found[1] if found else ""
        if not self.used_keys or self.used_keys[-1] != key:
            self.used_keys.append(key)
        return self._seconds is not None and time.monotonic() - self._issued.get(key, 0.0) > self._seconds


def _answer(
    request: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str], send: int | None = None
) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content[:send])
