"""``clocs serve``: options, and a complete demonstration."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest

from clocs.service.demo import make_demo
from clocs.training.shipped import DEFAULT_ENCODER
from tests.cli.conftest import Command
from tests.service.samples import sample
from tests.service.uploading import multipart


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0", "--open-access"), "everyone on the network"),
        (("--demo", "--index", "x"), "Omit --index"),
        (("--demo-folder", "x"), "requires --demo"),
        (("--token-file", "x", "--open-access"), "exclude each other"),
        (("--token-file", "absent"), "absent: No such file or directory. Create one with: head"),
        (("--index", "absent"), "is not an index"),
        (("--encoder", "cmsc-chapmann", "--open-access"), "Did you mean 'cmsc-chapman'?"),
    ],
)
def test_wrong_options_end_with_a_message(arguments: tuple[str, ...], words: str, command: Command) -> None:
    _, errors = command("serve", *arguments, "--port", 0, code=1)
    assert words in errors


def test_a_used_port_is_reported_before_the_demo_is_created(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, errors = command("serve", "--demo", "--demo-folder", tmp_path, "--port", taken.getsockname()[1], code=1)
    assert "Cannot listen on" in errors
    assert not list(tmp_path.iterdir())


def test_without_the_extra_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "clocs.service.server", raising=False)
    _, errors = command("serve", code=1)
    assert "clocs[serve]" in errors


TIMEOUT_SECONDS = 250
"""Seconds; the machine may be busy."""


def asked(address: str, real_data: Path) -> None:
    """Search, at the address as it is printed."""
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(?:#token=([\w-]{32}))?", address)
    assert found, address
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=TIMEOUT_SECONDS)
    body, headers = multipart(sample(real_data, "muse-xml"))
    connection.request("POST", "/api/v1/similar?k=3", body, headers | {"authorization": f"Bearer {found[2]}"})
    reply = connection.getresponse()
    assert len(json.loads(reply.read())["neighbours"]) == 3
    connection.close()


SERVE = [sys.executable, "-m", "clocs", "serve", "--demo", "--port", "0", "--processes", "1"]
LOWERED = ["nice", "-n", "15"]
if os.geteuid() == 0 and shutil.which("setpriv"):
    LOWERED += ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # as root, who may otherwise raise a priority


def test_a_demonstration_that_was_kept_at_low_priority_and_without_privileges(tmp_path: Path, real_data: Path) -> None:
    """Open to everyone on this machine; searches are written down beside it. It ends with its terminal."""
    make_demo(tmp_path, DEFAULT_ENCODER, 12)
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*LOWERED, *SERVE, "--demo-folder", str(tmp_path), "--open-access"],
        stdin=end,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(end)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert psutil.Process(process.pid).nice() >= 15
        assert "token" not in address
        asked(address, real_data)
        process.send_signal(signal.SIGHUP)  # from elsewhere: the audit log is opened again, and it goes on
        asked(address, real_data)
        os.close(terminal)
        assert process.wait(TIMEOUT_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
    assert len((tmp_path / "searches.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_a_demonstration_from_nothing(tmp_path: Path, real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its address has a token, which no log has; at SIGTERM it ends without a trace."""
    started = time.monotonic()
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        seconds = time.monotonic() - started
        asked(address, real_data)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    token = address.rpartition("=")[2]
    assert len(token) == 32
    assert token not in log
    assert list(tmp_path.iterdir()) == []
    with capsys.disabled():
        print(f"\nfrom nothing to an address: {seconds:.0f} s")
