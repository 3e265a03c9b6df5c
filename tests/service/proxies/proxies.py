"""The proxies of ``deploy/`` on a free port of loopback, with their files in a folder of their own."""

from __future__ import annotations

import base64
import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT
from tests.service.serving import Reply
from tests.service.waiting import WAIT_SECONDS, eventually

PROXY_TOKEN = "token-of-the-proxy"
TOKENS = {
    "sign-on": {
        "token": PROXY_TOKEN,
        "user_header": "X-Clocs-User",
        "rights": ["view", "search", "export"],
        "users": {"guest": ["view"]},
    }
}
SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


def program(name: str) -> str | None:
    """Return the path of a program, which may be in a folder of the administrator."""
    return shutil.which(name) or shutil.which(name, path=SBIN)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def certificate(folder: Path) -> None:
    """Make ``cert.pem`` and ``key.pem`` for localhost, which nobody else trusts."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    paths = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *paths], check=True, capture_output=True)


def shipped(name: str, changes: Mapping[str, str]) -> str:
    """Return a file of ``deploy/`` with changed addresses and paths, each of which it contains."""
    text = (ROOT / "deploy" / name).read_text()
    for theirs, ours in changes.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    return text


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    port: int

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        user: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask as a browser does, with Basic credentials if there is a user, whose password is ``secret-USER``."""
        unchecked = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=WAIT_SECONDS, context=unchecked)
        given = {"Origin": self.address, **(headers or {})}
        if user:
            given["Authorization"] = "Basic " + base64.b64encode(f"{user}:secret-{user}".encode()).decode()
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)


@contextlib.contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[Proxy]:
    """Start a proxy in the foreground, and stop it at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, log.read_text()
        yield Proxy(port)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
