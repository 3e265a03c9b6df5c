"""Operation of the service: log rotation, host names and damaged files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.service.conftest import NAME
from tests.service.samples import sample
from tests.service.serving import Reply, Served
from tests.service.test_api import problem

LOGROTATE = shutil.which("logrotate", path="/usr/sbin:/usr/local/sbin:/usr/bin:/bin") or shutil.which("logrotate")


def requests_in(log: Path) -> list[str]:
    return [json.loads(line)["request_id"] for line in log.read_text().splitlines()]


def reopened(service: Served, after: int) -> None:
    """Wait until the service says that it has opened its audit log again."""
    service.logged("audit log reopened", after)


@pytest.mark.parametrize("lost", ["renamed", "deleted"])
def test_without_the_audit_log_searches_are_refused_until_sighup(
    lost: str, open_handed: Served, real_data: Path
) -> None:
    files, log = sample(real_data, "muse-xml"), open_handed.audit_log
    first = open_handed.post("/api/v1/similar?k=1", files)
    handle = first.json()["neighbours"][0]["handle"]
    kept = log.rename(log.with_name("kept.jsonl"))
    before = kept.read_bytes()
    if lost == "deleted":
        kept.unlink()
    told = problem(open_handed.post("/api/v1/similar?k=1", files), 503, "audit-log-unavailable")
    assert "renamed or deleted" in told["detail"]
    problem(open_handed.get(f"/api/v1/neighbours/{handle}/preview"), 503, "audit-log-unavailable")
    assert open_handed.post("/api/v1/classify", files).status == 200
    assert open_handed.get("/readyz").status == 200
    assert not log.exists()
    written = len(open_handed.log)
    open_handed.process.send_signal(signal.SIGHUP)
    reopened(open_handed, written)
    again = open_handed.post("/api/v1/similar?k=1", files)
    assert again.status == 200
    assert requests_in(log) == [again.headers["x-request-id"]]
    assert log.stat().st_mode & 0o777 == 0o600
    if lost == "renamed":
        assert kept.read_bytes() == before
        assert requests_in(kept)[-1] == first.headers["x-request-id"]


def rotation(log: Path, pid: int) -> str:
    """The rules of ``deploy/``, for a log elsewhere and a service without systemd."""
    text = (ROOT / "deploy" / "clocs.logrotate").read_text()
    for theirs, ours in {
        "/var/log/clocs/searches.jsonl": str(log),
        "    su clocs clocs\n": "",
        "systemctl reload clocs.service": f"kill -HUP {pid}",
    }.items():
        assert text.count(theirs) == 1
        text = text.replace(theirs, ours)
    return text


@pytest.mark.skipif(LOGROTATE is None, reason="no logrotate; on Debian: apt-get install logrotate")
def test_logrotate_takes_the_log_and_the_service_goes_on(open_handed: Served, real_data: Path, tmp_path: Path) -> None:
    files, log = sample(real_data, "muse-xml"), open_handed.audit_log
    first = open_handed.post("/api/v1/similar?k=1", files)
    (tmp_path / "rules").write_text(rotation(log, open_handed.process.pid))
    (tmp_path / "rules").chmod(0o644)
    written = len(open_handed.log)
    assert LOGROTATE is not None
    command = [LOGROTATE, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "rules")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    reopened(open_handed, written)
    again = open_handed.post("/api/v1/similar?k=1", files)
    assert requests_in(log) == [again.headers["x-request-id"]]
    (rotated,) = log.parent.glob(f"{log.name}-*")
    assert requests_in(rotated)[-1] == first.headers["x-request-id"]


def test_on_a_network_the_service_accepts_its_name_or_address(open_handed: Served) -> None:
    for host in (NAME, NAME.upper(), f"{NAME}:443", "127.0.0.1", "192.0.2.7:8000", "[2001:db8::7]:8000", "localhost"):
        assert open_handed.get("/api/v1/model", host=host).status == 200, host
    for host in ("evil.example", f"{NAME}.evil.example", "127.0.0.1.evil.example", "0x7f000001", "[evil]", ""):
        problem(open_handed.get("/api/v1/model", host=host), 421, "wrong-host")
        assert open_handed.get("/", host=host).status == 421
        for probe in ("/healthz", "/readyz"):
            assert open_handed.get(probe, host=host).status == 200


class Others:
    """Clients that go on asking in threads, and the statuses of their answers."""

    def __init__(self, *requests: Callable[[], Reply]) -> None:
        self.statuses: Counter[int] = Counter()
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(request,)) for request in requests]
        for thread in self._threads:
            thread.start()

    def _ask(self, request: Callable[[], Reply]) -> None:
        while not self._done.is_set():
            self.statuses[request().status] += 1

    def end(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()


def flip_end(path: Path) -> None:
    """Flip a bit in each of a file's last bytes, in place; once more, and it is whole."""
    with path.open("r+b") as file:
        file.seek(-6, os.SEEK_END)
        last = file.read()
        file.seek(-6, os.SEEK_END)
        file.write(bytes(value ^ 1 for value in last))


def test_a_damaged_file_is_one_requests_fault_and_not_the_others(
    open_handed: Served, copied: Path, real_data: Path
) -> None:
    """Under load: who needs the damaged shard is refused, the file is logged and counted, all others are answered."""
    files = sample(real_data, "muse-xml")
    handle = open_handed.post("/api/v1/similar?k=1", files).json()["neighbours"][0]["handle"]
    preview = f"/api/v1/neighbours/{handle}/preview"
    assert open_handed.get(preview).status == 200
    (shard,) = (copied / "store" / "shards").glob("*.arrow")
    written = len(open_handed.log)
    before = open_handed.count("clocs_integrity_errors_total")
    others = Others(
        lambda: open_handed.post("/api/v1/classify", files), lambda: open_handed.post("/api/v1/similar?k=2", files)
    )
    try:
        flip_end(shard)
        refusals = [open_handed.get(preview) for _ in range(5)]
    finally:
        flip_end(shard)
        others.end()
    for refusal in refusals:
        told = problem(refusal, 503, "archive-unavailable")
        assert shard.name not in told["detail"]
        line = json.loads(open_handed.logged(rf'damaged file", "request_id": "{told["instance"]}', written))
        assert (line["level"], line["file"]) == ("error", shard.name)
        assert re.match("IntegrityError at ", line["error"][0])
    assert open_handed.count("clocs_integrity_errors_total") - before == len(refusals)
    assert set(others.statuses) == {200}
    assert open_handed.get(preview).status == 200
