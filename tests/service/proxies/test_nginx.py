"""Real nginx with the file of ``deploy/``: two users sign on by Basic, on a port that is not 443."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.service.proxies.proxies import PROXY_TOKEN, TOKENS, Proxy, certificate, free_port, program, running, shipped
from tests.service.samples import sample
from tests.service.serving import Served, served
from tests.service.test_api import problem
from tests.service.uploading import multipart

NGINX = program("nginx")
USERS = ("anna", "bert", "guest")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="no nginx; see make packages")]


@pytest.fixture(scope="module")
def service(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    log = tmp_path_factory.mktemp("behind") / "audit.jsonl"
    with served(index=str(demo / "index"), audit_log=str(log), tokens=TOKENS) as found:
        yield found


@contextlib.contextmanager
def nginx(folder: Path, backend: int) -> Iterator[Proxy]:
    """Run nginx with the shipped file; only addresses, paths and the token are ours."""
    certificate(folder)
    port = free_port()
    (folder / "users").write_text("".join(f"{user}:{{PLAIN}}secret-{user}\n" for user in USERS))
    (folder / "token.conf").write_text(f'proxy_set_header Authorization "Bearer {PROXY_TOKEN}";\n')
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name ecg.hospital.example": "server_name localhost",
        "/etc/ssl/certs/ecg.hospital.example.pem": f"{folder}/cert.pem",
        "/etc/ssl/private/ecg.hospital.example.key": f"{folder}/key.pem",
        "server 127.0.0.1:8000;": f"server 127.0.0.1:{backend};",
        "/var/log/nginx/clocs.log": f"{folder}/access.log",
        "auth_basic_user_file /etc/clocs/nginx-users": f"auth_basic_user_file {folder}/users",
        "include /etc/clocs/nginx-token.conf": f"include {folder}/token.conf",
    }
    main = f"daemon off; pid {folder}/pid; error_log stderr; user root; events {{}}\nhttp {{\n"
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(f"{main}{places}\n{shipped('nginx.conf', changes)}\n}}\n")
    assert NGINX is not None
    with running([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")], port, folder / "log") as proxy:
        yield proxy


def test_two_users_are_in_the_audit_log(service: Served, tmp_path: Path, real_data: Path) -> None:
    body, headers = multipart(sample(real_data, "muse-xml"))
    del headers["authorization"]
    with nginx(tmp_path, service.port) as proxy:
        assert proxy.ask("GET", "/api/v1/me").status == 401
        assert proxy.ask("GET", "/api/v1/me", headers={"Authorization": f"Bearer {PROXY_TOKEN}"}).status == 401
        assert proxy.ask("GET", "/api/v1/me", "mallory").status == 401
        claimed = proxy.ask("GET", "/api/v1/me", "guest", headers={"X-Clocs-User": "anna"})
        assert claimed.json() == {"rights": ["view"], "user": "guest", "token": "sign-on"}
        similar = proxy.ask("POST", "/api/v1/similar?k=1", "anna", body, headers)
        handle = similar.json()["neighbours"][0]["handle"]
        replies = [
            similar,
            proxy.ask("GET", f"/api/v1/neighbours/{handle}/preview", "bert"),
            proxy.ask("POST", "/api/v1/print", "bert", body, headers),
            proxy.ask("POST", "/api/v1/preview", "anna", body, headers),
        ]
        assert [reply.status for reply in replies] == [200] * 4
        problem(proxy.ask("POST", "/api/v1/print", "guest", body, headers), 403, "right-needed")
        foreign = proxy.ask("POST", "/api/v1/preview", "anna", body, {**headers, "Origin": "https://evil.example"})
        problem(foreign, 403, "foreign-origin")
    problem(service.get("/api/v1/me", **{"authorization": "Bearer x", "x-clocs-user": "anna"}), 401, "token-needed")
    lines = [json.loads(line) for line in service.audit_log.read_text().splitlines()]
    wanted = [("anna", "similar"), ("bert", "neighbour-preview"), ("bert", "print"), ("anna", "preview")]
    assert [(line["user"], line["endpoint"]) for line in lines] == wanted
    assert [line["request_id"] for line in lines] == [reply.headers["x-request-id"] for reply in replies]
    log = (tmp_path / "access.log").read_text()
    assert f'bert "POST /api/v1/print" 200 {replies[2].headers["x-request-id"]}' in log
    assert f"Bearer {PROXY_TOKEN}" not in log


def test_the_page_asks_for_no_token(service: Served, tmp_path: Path, browser: Browser) -> None:
    """Chromium signs on by Basic, opens the example and sees its neighbours; later, sign-on has expired."""
    with nginx(tmp_path, service.port) as proxy:
        credentials = {"username": "anna", "password": "secret-anna"}
        context = browser.new_context(http_credentials=credentials, ignore_https_errors=True)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(proxy.address)
        page.wait_for_selector("#foot-user:has-text('anna')")
        page.click("#open-example")
        page.wait_for_selector("#classes .class-row")
        page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
        assert page.is_hidden("#token-dialog")
        page.route("**/api/v1/similar*", lambda route: route.fulfill(status=401, body="<html>401</html>"))
        page.select_option("#filters [name=sex]", "female")
        page.wait_for_selector("#neighbours .trouble:has-text('Your sign-on has expired')")
        assert page.is_hidden("#token-dialog")
        context.close()
