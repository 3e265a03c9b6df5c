"""``kill -9`` during an ingest: what was committed stays, and the continued store is the same to the byte."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from clocs.core.files import atomic_file
from clocs.store.manifest import versions
from clocs.store.verify import verify
from tests.conftest import ROOT
from tests.faults.stores import (
    FIRST,
    check_readable,
    fingerprint,
    grown_source,
    partials,
    scratch_folder,
    slice_zip,
    small_ingest,
)

SCRIPT = Path(__file__).with_name("ingesting.py")
COMMAND = [sys.executable, "-c", "from clocs.cli.main import main; main()", "data", "ingest"]
STORED_FIRST = FIRST - 1
"""One of the first recordings is cut short and refused."""


def run_until_step(source: Path, store: Path, step: int) -> bool:
    """Whether the process died at that step; False: it has fewer and finished."""
    arguments = [sys.executable, str(SCRIPT), "folder", str(source), str(store), "--die-at", str(step)]
    code = subprocess.run(arguments, check=False, timeout=60).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.fixture
def grown(originals: Path, tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """A store of version 1, the grown source, and what version 2 must be."""
    small, large = grown_source(originals, tmp_path)
    first, undisturbed = tmp_path / "first", tmp_path / "undisturbed"
    small_ingest(small, first)
    shutil.copytree(first, undisturbed)
    small_ingest(large, undisturbed)
    assert versions(undisturbed) == [1, 2]
    return first, large, fingerprint(undisturbed)


@pytest.mark.slow
def test_kill_at_every_step(
    grown: tuple[Path, Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, source, expected = grown
    step = 0
    while True:
        step += 1
        store = tmp_path / f"store-{step}"
        shutil.copytree(first, store)
        died = run_until_step(source, store, step)
        check_readable(store, 1, STORED_FIRST)
        small_ingest(source, store)
        assert fingerprint(store) == expected, f"killed at step {step}"
        assert not partials(store)
        if not died:
            break
    # Two tasks with a shard and a receipt each, the quarantine list, the manifest: three steps each.
    assert step - 1 == 3 * (2 * 2 + 2)
    with capsys.disabled():
        print(f"\nkills at named steps: {step - 1} of {step - 1} stores byte-identical")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_at_two_steps(
    grown: tuple[Path, Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The continuation is killed too; what it has left to do differs from case to case."""
    first, source, expected = grown
    done = 0
    for step in range(1, 19):
        for second in range(1, 19, 3):
            store = tmp_path / "store"
            shutil.copytree(first, store)
            run_until_step(source, store, step)
            died = run_until_step(source, store, second)
            check_readable(store, 1, STORED_FIRST)
            small_ingest(source, store)
            assert fingerprint(store) == expected, f"killed at steps {step} and {second}"
            assert not partials(store)
            shutil.rmtree(store)
            done += died
    with capsys.disabled():
        print(f"\ndouble kills at named steps: {done} of {done} stores byte-identical")


@dataclass(frozen=True)
class Ingest:
    """A command that makes a store, what it makes undisturbed, and how long that takes."""

    command: Callable[[Path, int], list[str]]
    expected: dict[str, str]
    seconds: dict[int, float]
    """By number of workers: from the moment the store is locked."""

    def start(self, store: Path, workers: int) -> subprocess.Popen[bytes]:
        """Start it in a session of its own, and wait until it holds the store."""
        before = (store / ".lock").stat().st_mtime_ns if (store / ".lock").exists() else 0
        process = subprocess.Popen(
            self.command(store, workers), start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        while process.poll() is None:
            if (store / ".lock").exists() and (store / ".lock").stat().st_mtime_ns != before:
                break
            time.sleep(0.005)
        return process

    def finish(self, store: Path, workers: int) -> float:
        """Run it to its end; the seconds it held the store."""
        process = self.start(store, workers)
        started = time.monotonic()
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
        return time.monotonic() - started


def measured(command: Callable[[Path, int], list[str]], folder: Path) -> Ingest:
    seconds = {}
    for workers in (1, 2):
        plain = Ingest(command, {}, {})
        seconds[workers] = plain.finish(folder / f"undisturbed-{workers}", workers)
    expected = fingerprint(folder / "undisturbed-1")
    assert expected == fingerprint(folder / "undisturbed-2")
    return Ingest(command, expected, seconds)


def session(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The living processes a command started, itself included."""
    found = []
    for other in psutil.process_iter():
        try:
            if os.getsid(other.pid) == process.pid and other.status() != psutil.STATUS_ZOMBIE:
                found.append(other)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def kill_all(process: subprocess.Popen[bytes]) -> bool:
    os.killpg(process.pid, signal.SIGKILL)
    return True


def kill_main(process: subprocess.Popen[bytes]) -> bool:
    """What a user's ``kill -9`` does: the workers find themselves alone."""
    process.kill()
    return True


def kill_worker(process: subprocess.Popen[bytes], choice: random.Random) -> bool:
    workers = [other for other in session(process) if "LokyProcess" in " ".join(other.cmdline())]
    if not workers:
        return False
    choice.choice(workers).kill()
    return True


def wait_for_orphans(process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 20
    while (left := session(process)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not left, f"workers outlive their killed parent: {left}"


def killed_run(ingest: Ingest, store: Path, workers: int, choice: random.Random, kill: str) -> bool:
    """Start and kill one run; False: it was quicker than the kill."""
    process = ingest.start(store, workers)
    time.sleep(choice.uniform(0, ingest.seconds[workers]))
    hit = process.poll() is None and (kill_all(process) if kill == "all" else kill_main(process))
    process.communicate(timeout=60)
    return hit and process.returncode == -signal.SIGKILL


def random_kills(ingest: Ingest, folder: Path, rounds: int, workers: int, kill: str, seed: int) -> int:
    """So many stores, each killed once or several times and continued; how many kills hit."""
    choice = random.Random(f"{seed} {workers} {kill}")
    hits = 0
    for number in range(rounds):
        store = folder / f"store-{kill}-{workers}-{number}"
        while not killed_run(ingest, store, workers, choice, kill):
            shutil.rmtree(store, ignore_errors=True)
        hits += 1
        while choice.random() < 0.3:
            hits += killed_run(ingest, store, workers, choice, kill)
        process = ingest.start(store, workers)  # at once: whatever was left behind may still be there
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
        wait_for_orphans(process)
        assert fingerprint(store) == ingest.expected, f"round {number}, seed {seed}"
        assert not partials(store)
        assert verify(store) == []
        shutil.rmtree(store)
    return hits


def random_worker_kills(ingest: Ingest, folder: Path, rounds: int, seed: int) -> int:
    """One of two workers dies; the run itself goes on and succeeds."""
    choice = random.Random(f"{seed} worker")
    hits = 0
    while hits < rounds:
        store = folder / f"store-worker-{hits}"
        shutil.rmtree(store, ignore_errors=True)
        process = ingest.start(store, 2)
        time.sleep(choice.uniform(0, ingest.seconds[2]))
        hit = process.poll() is None and kill_worker(process, choice)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
        assert fingerprint(store) == ingest.expected
        assert not partials(store)
        hits += hit
    return hits


def test_random_kills(originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def command(store: Path, workers: int) -> list[str]:
        arguments = ["ludb", f"{originals}/ludb", str(store), "--records-per-shard", "2", "--workers", str(workers)]
        return [sys.executable, str(SCRIPT), *arguments]

    ingest = measured(command, tmp_path)
    hits = random_kills(ingest, tmp_path, 1, 1, "all", seed=1)
    hits += random_kills(ingest, tmp_path, 1, 2, "main", seed=1)
    hits += random_worker_kills(ingest, tmp_path, 1, seed=1)
    with capsys.disabled():
        print(f"\nkills: {hits} kills, 3 of 3 stores byte-identical")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_random_kills_in_full(real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """50 stores from 3,000 recordings of CinC 2017, by the command, and 15 that lose a worker."""
    with scratch_folder(tmp_path) as folder:
        archive = slice_zip(real_data / "cinc2017.zip", folder / "slice.zip", 3000)

        def command(store: Path, workers: int) -> list[str]:
            return [*COMMAND, "physionet2017", str(archive), str(store), "--workers", str(workers)]

        ingest = measured(command, folder)
        hits = random_kills(ingest, folder, 20, 1, "all", seed=2)
        hits += random_kills(ingest, folder, 15, 2, "all", seed=2)
        hits += random_kills(ingest, folder, 15, 2, "main", seed=2)
        lost = random_worker_kills(ingest, folder, 15, seed=2)
    with capsys.disabled():
        print(f"\nkills: 50 of 50 stores byte-identical ({hits} kills); {lost} of {lost} that lost a worker")


def _write_slowly(path: str) -> None:
    with atomic_file(Path(path)) as file:
        for piece in PIECES:
            file.write(piece)
            file.flush()
            time.sleep(0.05)


PIECES = [bytes([number]) * 5000 for number in range(1, 20)]


def test_a_worker_left_behind_and_the_next_run_write_the_same_file(tmp_path: Path) -> None:
    """Whichever ends first, the file is whole whenever it has its name, and neither fails."""
    path = tmp_path / "one"
    script = f"from tests.faults.test_kills import _write_slowly; _write_slowly({str(path)!r})"
    writers = []
    for _ in range(3):
        writers.append(subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE))
        time.sleep(0.3)
    while any(writer.poll() is None for writer in writers):
        assert not path.exists() or path.read_bytes() == b"".join(PIECES)
        time.sleep(0.01)
    for writer in writers:
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors.decode()
    assert path.read_bytes() == b"".join(PIECES)
    assert not partials(tmp_path)
