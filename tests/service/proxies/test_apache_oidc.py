"""Real Apache with ``mod_auth_openidc`` and the file of ``deploy/``, against the provider ``oidc-provider-mock``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.service.proxies.proxies import PROXY_TOKEN, TOKENS, Proxy, certificate, free_port, program, running, shipped
from tests.service.serving import served
from tests.service.test_api import problem

APACHE = program("apache2")
MODULES = Path("/usr/lib/apache2/modules")
NAMES = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "ssl", "proxy", "proxy_http", "auth_openidc")
PROVIDER = Path(sys.executable).with_name("oidc-provider-mock")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        APACHE is None or not (MODULES / "mod_auth_openidc.so").exists() or not PROVIDER.exists(),
        reason="no apache2 with mod_auth_openidc, or no oidc-provider-mock; see make packages",
    ),
]


@contextlib.contextmanager
def provider(folder: Path) -> Iterator[str]:
    """Run an OpenID Connect provider that knows two users, and yield its address."""
    port = free_port()
    users = [
        f"--user-claims={json.dumps({'sub': f'1-{name}', 'preferred_username': name})}" for name in ("anna", "bert")
    ]
    with running([str(PROVIDER), "--port", str(port), *users], port, folder / "provider.log"):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def apache(folder: Path, backend: int, issuer: str) -> Iterator[Proxy]:
    """Run Apache with the shipped file; only addresses, paths, token and secrets are ours."""
    certificate(folder)
    port = free_port()
    (folder / "token.conf").write_text(f'RequestHeader set Authorization "Bearer {PROXY_TOKEN}"\n')
    (folder / "secrets.conf").write_text("OIDCClientSecret secret-of-a-test\nOIDCCryptoPassphrase phrase-of-a-test\n")
    changes = {
        "*:443": f"127.0.0.1:{port}",
        "/etc/ssl/certs/ecg.hospital.example.pem": f"{folder}/cert.pem",
        "/etc/ssl/private/ecg.hospital.example.key": f"{folder}/key.pem",
        "/var/log/apache2/clocs.log": f"{folder}/access.log",
        "Include /etc/clocs/oidc-secrets.conf": f"Include {folder}/secrets.conf",
        "Include /etc/clocs/apache-token.conf": f"Include {folder}/token.conf",
        "https://login.hospital.example": issuer,
        "https://ecg.hospital.example/sign-on": f"https://localhost:{port}/sign-on",
        "ServerName ecg.hospital.example": "ServerName localhost",
        "http://127.0.0.1:8000/": f"http://127.0.0.1:{backend}/",
    }
    modules = "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in NAMES)
    own = f"ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog /dev/stderr\nServerName localhost\n"
    listen = f"DefaultRuntimeDir {folder}\nListen 127.0.0.1:{port}\nUser www-data\nGroup www-data\n"
    (folder / "apache.conf").write_text(modules + own + listen + shipped("apache-oidc.conf", changes))
    assert APACHE is not None
    command = [APACHE, "-D", "FOREGROUND", "-f", str(folder / "apache.conf")]
    with running(command, port, folder / "log") as proxy:
        yield proxy


def test_two_users_sign_on_and_their_sign_on_expires(demo: Path, tmp_path: Path, browser: Browser) -> None:
    """In Chromium: no token is asked for, both users are audited, and an expired sign-on is said."""
    log = tmp_path / "audit.jsonl"
    with (
        served(index=str(demo / "index"), audit_log=str(log), tokens=TOKENS) as service,
        provider(tmp_path) as issuer,
        apache(tmp_path, service.port, issuer) as proxy,
    ):
        assert proxy.ask("GET", "/api/v1/me", headers={"X-Clocs-User": "anna"}).status == 401
        assert proxy.ask("GET", "/api/v1/me", headers={"Authorization": f"Bearer {PROXY_TOKEN}"}).status == 401
        for user in ("anna", "bert"):
            context = browser.new_context(ignore_https_errors=True)
            page = context.new_page()
            page.goto(proxy.address)
            assert page.url.startswith(issuer)
            page.fill("input[name=sub]", f"1-{user}")
            page.click("button[type=submit]")
            page.wait_for_selector(f"#foot-user:has-text('{user}')")
            assert page.url.startswith(proxy.address)
            claimed = page.evaluate("fetch('/api/v1/me', {headers: {'X-Clocs-User': 'mallory'}}).then((r) => r.json())")
            assert claimed["user"] == user
            page.click("#open-example")
            page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
            assert page.is_hidden("#token-dialog")
            context.clear_cookies()
            page.select_option("#filters [name=sex]", "female")
            page.wait_for_selector("#neighbours .trouble:has-text('Your sign-on has expired')")
            assert page.is_hidden("#token-dialog")
            context.close()
        problem(service.get("/api/v1/me", **{"x-clocs-user": "anna", "authorization": ""}), 401, "token-needed")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {(line["user"], line["endpoint"]) for line in lines} == {
        (user, endpoint) for user in ("anna", "bert") for endpoint in ("preview", "similar")
    }
    assert PROXY_TOKEN not in (tmp_path / "access.log").read_text()
