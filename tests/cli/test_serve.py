"""``clocs serve``: its options, and a demonstration from nothing to an answer."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

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
        (("--demo", "--index", "x"), "leave out --index"),
        (("--demo-folder", "x"), "goes with --demo"),
        (("--token-file", "x", "--open-access"), "exclude each other"),
        (("--token-file", "absent"), "absent: No such file or directory. To make one: head"),
        (("--index", "absent"), "no finished index"),
        (("--encoder", "cmsc-chapmann", "--open-access"), "Did you mean 'cmsc-chapman'?"),
    ],
)
def test_wrong_options_end_with_a_message(arguments: tuple[str, ...], words: str, command: Command) -> None:
    _, errors = command("serve", *arguments, "--port", 0, code=1)
    assert words in errors


def test_a_port_that_is_taken_is_told_before_a_demonstration_is_made(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, errors = command("serve", "--demo", "--demo-folder", tmp_path, "--port", taken.getsockname()[1], code=1)
    assert "cannot listen on" in errors
    assert not list(tmp_path.iterdir())


def test_without_the_extra_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "clocs.service.server", raising=False)
    _, errors = command("serve", code=1)
    assert "clocs[serve]" in errors


def served(real_data: Path, *options: object, **environment: str) -> tuple[str, str, float]:
    """A demonstration that is started, asked and stopped: its address, its log, and seconds until the address came."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "clocs", "serve", "--demo", "--port", "0", "--processes", "1", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1", **environment},
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        seconds = time.monotonic() - started
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(?:#token=([\w-]{32}))?", address)
        assert found, address
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
        body, headers = multipart(sample(real_data, "muse-xml"))
        connection.request("POST", "/api/v1/similar?k=3", body, headers | {"authorization": f"Bearer {found[2]}"})
        reply = connection.getresponse()
        assert len(json.loads(reply.read())["neighbours"]) == 3
        connection.close()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0
    return address, log, seconds


def test_a_demonstration_that_was_kept(tmp_path: Path, real_data: Path) -> None:
    """Open to everyone on this machine; searches are written down beside it."""
    make_demo(tmp_path, DEFAULT_ENCODER, 12)
    address, _, _ = served(real_data, "--demo-folder", tmp_path, "--open-access")
    assert "token" not in address
    assert len((tmp_path / "searches.jsonl").read_text().splitlines()) == 1


@pytest.mark.slow
def test_a_demonstration_from_nothing(tmp_path: Path, real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its address has a token, which no log has; at SIGTERM it ends without a trace."""
    address, log, seconds = served(real_data, TMPDIR=str(tmp_path))
    token = address.rpartition("=")[2]
    assert len(token) == 32
    assert token not in log
    assert list(tmp_path.iterdir()) == []
    with capsys.disabled():
        print(f"\nfrom nothing to an address: {seconds:.0f} s")
