"""A service in a separate process on a free port: ``python -m tests.service.serving SETTINGS``."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.service.uploading import TOKEN, multipart
from tests.service.waiting import WAIT_SECONDS, eventually

START_SECONDS = 280.0


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    port: int
    audit_log: Path
    log: list[str] = field(default_factory=list)
    """Output so far, including errors."""

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        connection = self.connect()
        connection.request(method, path, body, {"authorization": f"Bearer {TOKEN}", **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, told, content)

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(
        self,
        path: str,
        files: dict[str, bytes],
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        body, own = multipart(files, fields=fields)
        return self.ask("POST", path, body, {**own, **(headers or {})})

    def logged(self, word: str, after: int = 0) -> str:
        """Wait for a line of the log with this word, beyond the first so many."""
        eventually(lambda: any(word in line for line in self.log[after:]))
        return next(line for line in self.log[after:] if word in line)

    def whole_log(self) -> str:
        """All that it has written about the requests so far, whose lines may still be on their way here."""
        self.logged(self.get("/healthz").headers["x-request-id"])
        return "".join(self.log)

    def count(self, sample: str) -> float:
        """The value of a metric now; 0 where it was never raised."""
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(f"{sample} "):
                return float(line.rpartition(" ")[2])
        return 0.0


@contextlib.contextmanager
def served(limits: dict[str, Any] | None = None, **settings: Any) -> Iterator[Served]:
    """A service with these settings, by default with one token; killed at the end if it still runs."""
    small = {"parsing_processes": 1, "active": 1, **(limits or {})}
    token = {} if "tokens" in settings else {"token": TOKEN}
    given = {"port": 0, "limits": small, **token, **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.service.serving", json.dumps(given)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    running = Served(process, 0, Path(settings["audit_log"]))
    ready = threading.Event()
    reader = threading.Thread(target=_read, args=(running, ready), daemon=True)
    reader.start()
    try:
        if not ready.wait(START_SECONDS) or not running.port:
            raise AssertionError("the service did not start:\n" + "".join(running.log))
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join(10)
        assert process.stdout is not None
        process.stdout.close()


def _read(running: Served, ready: threading.Event) -> None:
    assert running.process.stdout is not None
    for line in running.process.stdout:
        if line.startswith("ready "):
            running.port = int(line.rsplit(":", 1)[1])
            ready.set()
        else:
            running.log.append(line)
    ready.set()


def main() -> None:
    from clocs.service.server import run
    from clocs.service.settings import ServiceSettings

    given = json.loads(sys.argv[1])
    given["audit_log"] = Path(given["audit_log"])
    settings = ServiceSettings.model_validate(given)
    run(settings, lambda address: print(f"ready {address}", flush=True))


if __name__ == "__main__":
    main()
