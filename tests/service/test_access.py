"""Access control by token, host name and origin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from clocs.service.access import Access
from clocs.service.settings import ServiceSettings
from tests.service.serving import Served
from tests.service.uploading import TOKEN


def answer(settings: ServiceSettings, path: str, **headers: str) -> int:
    """The status of a request that nothing else would refuse."""
    statuses: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "method": "POST", "headers": raw}
    asyncio.run(Access(app, settings)(scope, receive, send))
    return statuses[0]


CLOSED = ServiceSettings(token=SecretStr(TOKEN), audit_log=Path("x"))
OPEN = ServiceSettings(open_access=True, audit_log=Path("x"))
HERE = {"host": "localhost:8000"}


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer \xff\xfe", 401),
        ("", 401),
    ],
)
def test_the_token(header: str, status: int) -> None:
    assert answer(CLOSED, "/api/v1/map", authorization=header, **HERE) == status


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/model", 200), ("/api/openapi.json", 200), ("/metrics", 200), ("/api/v1/nothing", 404), ("/x", 404)],
)
def test_all_but_the_page_and_probes_need_the_token(path: str, status: int) -> None:
    assert answer(CLOSED, path, **HERE) == 401
    assert answer(OPEN, path, **HERE) == status


@pytest.mark.parametrize("path", ["/", "/viewer/app.js", "/healthz", "/readyz"])
def test_addresses_without_data_need_no_token(path: str) -> None:
    assert answer(CLOSED, path, **HERE) == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("[::1]:8000", 200), ("LOCALHOST", 200), ("evil.example", 421), ("", 421)],
)
def test_a_rebound_host_name_is_rejected(host: str, status: int) -> None:
    """DNS rebinding: the browser believes it talks to that site, and would let its scripts read the answer."""
    assert answer(OPEN, "/api/v1/map", host=host) == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:8000", 200), ("http://localhost:9000", 403), ("https://evil.example", 403), ("null", 403)],
)
def test_pages_of_other_sites_are_refused(origin: str, status: int) -> None:
    assert answer(OPEN, "/api/v1/preview", origin=origin, **HERE) == status


def test_a_proxy_is_known_by_its_name() -> None:
    settings = CLOSED.model_copy(update={"allowed_hosts": ("ecg.ward",)})
    token = {"authorization": f"Bearer {TOKEN}"}
    assert answer(settings, "/api/v1/map", host="ecg.ward", origin="https://ecg.ward", **token) == 200
    assert answer(settings, "/api/v1/map", host="127.0.0.1:8000", origin="https://ecg.ward", **token) == 200
    assert answer(CLOSED, "/api/v1/map", host="ecg.ward", **token) == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("ecg.ward", 200),
        ("ECG.ward:443", 200),
        ("192.0.2.7:8000", 200),
        ("[2001:db8::7]:8000", 200),
        ("localhost", 200),
        ("other.ward", 421),
        ("192.0.2.7.evil.example", 421),
        ("", 421),
    ],
)
def test_in_the_network_an_address_or_an_allowed_name_is_needed(host: str, status: int) -> None:
    settings = ServiceSettings(host="0.0.0.0", token=SecretStr(TOKEN), allowed_hosts=("ecg.ward",), audit_log=Path("x"))
    assert answer(settings, "/api/v1/map", host=host, authorization=f"Bearer {TOKEN}") == status
    assert answer(settings, "/api/v1/map", host=host) == (401 if status == 200 else status)


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_probes_may_use_any_name(host: str, path: str) -> None:
    settings = ServiceSettings(host=host, token=SecretStr(TOKEN), audit_log=Path("x"))
    assert answer(settings, path, host="10-0-0-7.pods.example") == 200
    assert answer(settings, f"{path}/more", host="10-0-0-7.pods.example") == 421


WANTED = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize("path", ["/", "/viewer/app.js", "/healthz", "/api/v1/model", "/api/v1/nothing", "/nothing"])
def test_every_response_has_security_headers(client: Served, path: str) -> None:
    reply = client.get(path)
    assert {name: reply.headers.get(name) for name in WANTED} == WANTED
    assert "camera=()" in reply.headers["permissions-policy"]
    assert len(reply.headers["x-request-id"]) == 16
    assert reply.headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")
