"""Real ``echoscu`` and ``storescu`` of dcmtk: an ECG that was accepted is stored, wherever the receiver is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import clocs
from clocs.store.manifest import versions
from tests.service.samples import sample
from tests.service.serving import served

SCRIPT = Path(__file__).with_name("receiving.py")
CLIENTS = ("echoscu", "storescu")
MIN_STEPS = 12
"""Number of steps of durable writes of one ECG, at least: received file, recording, shard, manifest."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, CLIENTS)), reason="dcmtk is not installed"),
]


@contextmanager
def receiver(folder: Path, step: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a receiver that dies at a step, and yield it with its port; the port is empty if it died before."""
    arguments = [*(str(folder / name) for name in ("store", "spool", "ward.key")), str(step)]
    process = subprocess.Popen([sys.executable, SCRIPT, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix("DICOM on port ").strip()
    finally:
        process.kill()
        process.communicate()


def send(command: str, port: str, *more: str | Path) -> bool:
    words = [command, "-aet", "CART1", "-aec", "CLOCS", "127.0.0.1", port, *more]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_nothing_accepted_is_lost(tmp_path: Path, real_data: Path) -> None:
    ecg = tmp_path / "ecg.dcm"
    ecg.write_bytes(next(iter(sample(real_data, "dicom").values())))
    for step in range(1, 200):
        folder = tmp_path / str(step)
        clocs.make_key(folder / "ward.key")
        with receiver(folder, step) as (process, port):
            accepted = bool(port) and send("echoscu", port) and send("storescu", port, ecg)
            code = process.wait() if accepted else -signal.SIGKILL
        assert code in (0, -signal.SIGKILL)
        if code != 0:
            with receiver(folder, 0) as (process, port):
                sent = send("storescu", port, ecg)  # a sender repeats what was not accepted, and may repeat the rest
                assert accepted or sent or process.wait() == 0
                if not _stored(folder):
                    assert process.wait() == 0
        assert _stored(folder) == 1, f"killed at step {step}"
        if code == 0:
            break
    assert step > MIN_STEPS


def test_an_ecg_that_was_sent_is_in_the_viewers_list(tmp_path: Path, real_data: Path) -> None:
    ecg = tmp_path / "ecg.dcm"
    ecg.write_bytes(next(iter(sample(real_data, "dicom").values())))
    clocs.make_key(tmp_path / "ward.key")
    with receiver(tmp_path, 0) as (process, port):
        assert send("storescu", port, ecg)
        assert process.wait() == 0
    with served(store=str(tmp_path / "store"), audit_log=str(tmp_path / "audit.jsonl")) as service:
        (row,) = service.get("/api/v1/recordings").json()["recordings"]
        assert row["leads"] == 12
        assert service.get(f"/api/v1/recordings/{row['handle']}/preview").status == 200


def _stored(folder: Path) -> int:
    return len(clocs.open_store(folder / "store")) if versions(folder / "store") else 0
