"""Faults of a bucket's server and of the processes that use it: work continues, with the bytes of a local folder."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.core.errors import StoreError
from clocs.core.storage import bucket as buckets
from clocs.core.storage import files
from clocs.core.storage.counters import counts
from clocs.core.storage.object_cache import cache_folder
from clocs.store.verify import verify
from tests import forked, object_server
from tests.fault_proxy import CREDENTIALS, FaultProxy
from tests.faults.stores import fingerprint, grown_source, small_ingest
from tests.object_server import ObjectServer
from tests.store.test_buckets import ingest, tree
from tests.training.test_bucket_training import SETTINGS, make_store
from tests.training.test_resume import content

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("ingesting.py")


def every_kind(number: int, verb: str) -> str:
    """Return a fault for two of three requests."""
    return ["", "503", "slow", "", "lost", "cut"][number % 6]


def through(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)


@pytest.fixture
def server(bucket: str, running_object_server: ObjectServer) -> ObjectServer:
    return running_object_server


def restart(server: ObjectServer, seconds: float) -> threading.Thread:
    """Kill a server, and start it again in a thread after a while."""
    server.kill()

    def start() -> None:
        time.sleep(seconds)
        server.start()

    thread = threading.Thread(target=start)
    thread.start()
    return thread


def test_errors_lost_and_slow_answers_change_no_byte(
    bucket: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost answer to a write that succeeded looks like that of another writer, whose bytes are compared."""
    local, before = ingest(tmp_path / "store"), counts()["bucket_retries"]
    with FaultProxy(server.port, every_kind) as proxy:
        through(proxy, monkeypatch)
        remote = ingest(f"{bucket}/store")
        shutil.rmtree(cache_folder())
        assert [r.digital.tobytes() for r in remote] == [r.digital.tobytes() for r in local]
        assert tree(remote.folder) == tree(local.folder)
        assert min(proxy.injected[fault] for fault in ("503", "slow", "lost", "cut")) > 2
    assert counts()["bucket_retries"] - before >= 6


def test_a_server_that_stays_away_is_named(
    bucket: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is used when the same command runs again."""
    monkeypatch.setattr(buckets, "RETRY_SECONDS", 0.3)
    with FaultProxy(server.port, lambda number, verb: "503" if number > 12 else "") as proxy:
        through(proxy, monkeypatch)
        with pytest.raises(StoreError, match=r"s3://ecgs/.*: SlowDown\. Check the network.*call again to continue"):
            ingest(f"{bucket}/store")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    assert tree(ingest(f"{bucket}/store").folder) == tree(ingest(tmp_path / "store").folder)


@pytest.mark.slow
def test_a_server_that_is_killed_and_restarted(
    bucket: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During an ingest, and during training from the bucket."""
    local, restarts = make_store(tmp_path / "store"), list[threading.Thread]()
    numbers = iter(range(1, sys.maxsize))

    def reached(step: str, path: Path) -> None:
        if next(numbers) in (6, 70):
            restarts.append(restart(server, 1))

    monkeypatch.setattr(files, "on_write_step", reached)
    remote = make_store(f"{bucket}/store")
    monkeypatch.setattr(files, "on_write_step", lambda step, path: None)
    for thread in restarts:
        thread.join()
    assert len(restarts) == 2
    assert tree(remote.folder) == tree(local.folder)
    shutil.rmtree(cache_folder())

    def progress(known: dict[str, Any]) -> None:
        if known.get("step") == 5 and "loss" in known:
            restarts.append(restart(server, 1))

    for store, name in ((local, "local"), (remote, "remote")):
        settings = [f"store={store.folder}", f"runs={tmp_path / name}", *SETTINGS]
        mirror = [f"mirror={bucket}/runs"] if store is remote else []
        clocs.pretrain("cmsc-synthetic", settings + mirror, progress=progress if store is remote else None)
    restarts[-1].join()
    assert content(tmp_path / "remote") == content(tmp_path / "local")


@pytest.mark.slow
def test_tokens_that_expire_every_minute(
    bucket: str, server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests over two minutes and a half: none is made with an expired token."""
    with FaultProxy(server.port, lambda number, verb: "", object_server.KEYS, 60) as proxy:
        through(proxy, monkeypatch)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", proxy.url + CREDENTIALS)
        deadline, expected = time.monotonic() + 150, None
        while time.monotonic() < deadline:
            shutil.rmtree(cache_folder(), ignore_errors=True)
            found = tree(ingest(f"{bucket}/store").folder)
            assert found == (expected or found)
            expected = found
            time.sleep(2)
        assert len(proxy.used_keys) >= 3
        assert proxy.refused_tokens == 0
    assert expected == tree(ingest(tmp_path / "store").folder)


def bucket_fingerprint(store: str) -> dict[str, str]:
    """Return the content of every object of a store by name, as ``fingerprint`` does, without probes and indexes."""
    found = tree(clocs.open_store(store).folder)
    return {
        name: hashlib.sha256(data).hexdigest()
        for name, data in sorted(found.items())
        if not name.startswith(("known-files", "known_files", ".clocs-probe"))
    }


def ingest_until(source: Path, store: str, step: int) -> bool:
    """Ingest in another process that kills itself at a step. Return whether it did."""
    done = forked.run(str(SCRIPT), "folder", str(source), store, "--die-at", str(step), cwd=ROOT)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode != 0


@pytest.fixture
def source(originals: Path, tmp_path: Path) -> Path:
    return grown_source(originals, tmp_path)[1]


def check_killed(source: Path, store: str, step: int, expected: dict[str, str]) -> bool:
    died = ingest_until(source, store, step)
    remote = small_ingest(source, store)  # type: ignore[arg-type]  # a URL
    assert bucket_fingerprint(store) == expected, f"killed at step {step}"
    assert verify(remote.folder) == []
    return died


def test_an_ingest_killed_before_its_manifest_continues(source: Path, bucket: str, tmp_path: Path) -> None:
    small_ingest(source, tmp_path / "store")
    assert check_killed(source, f"{bucket}/store", 20, fingerprint(tmp_path / "store"))


@pytest.mark.slow
def test_an_ingest_killed_at_every_step(
    source: Path, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_ingest(source, tmp_path / "store")
    expected, step = fingerprint(tmp_path / "store"), 1
    while check_killed(source, f"{bucket}/store-{step}", step, expected):
        step += 1
    with capsys.disabled():
        print(f"\nkills at named steps of an ingest into a bucket: {step - 1} stores byte-identical")
    assert step > 20


def train(store: str, runs: Path, **extra: Any) -> int:
    """Train in another process. Return its exit code."""
    settings = [f"store={store}", f"runs={runs}", *SETTINGS]
    done = forked.run("-m", "tests.training.driver", "cmsc-synthetic", json.dumps(extra), *settings, cwd=ROOT)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return int(done.returncode)


@pytest.mark.slow
def test_training_from_a_bucket_killed_at_writes_steps_and_downloads(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a cold cache every other time. The copies that a killed process had begun are removed by the next one."""
    for place in (f"{bucket}/store", tmp_path / "store"):
        make_store(place)
    train(str(tmp_path / "store"), tmp_path / "local")
    expected, kills = content(tmp_path / "local"), 0
    cases: Iterator[dict[str, int]] = iter(
        [{"stop_at": step} for step in (1, 7, 13)]
        + [{"kill_at_write": count} for count in (1, 3, 5, 8, 12, 17, 23, 30)]
        + [{"kill_at_fetch": count} for count in (1, 5, 20)]
    )
    for number, case in enumerate(cases):
        runs = tmp_path / f"runs-{number}"
        if number % 2 or "kill_at_fetch" in case:
            shutil.rmtree(cache_folder(), ignore_errors=True)
        kills += train(f"{bucket}/store", runs, **case) != 0
        assert train(f"{bucket}/store", runs) == 0
        assert content(runs) == expected, case
        assert not list((cache_folder() / "shards" / "files").glob(".*"))
    with capsys.disabled():
        print(f"\nkills of training from a bucket: {kills} runs identical")
    assert kills == 14
