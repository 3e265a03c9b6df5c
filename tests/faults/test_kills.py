"""``kill -9`` during an ingest: committed data remain, and the continued store is identical."""

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

from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.task_records import TASK_RECORDS
from clocs.store.verify import verify
from tests.faults.stores import (
    FIRST,
    check_readable,
    fingerprint,
    grown_source,
    partials,
    scratch_folder,
    slice_zip,
    small_dataset,
    small_ingest,
)

SCRIPT = Path(__file__).with_name("ingesting.py")
COMMAND = [sys.executable, "-c", "from clocs.cli.main import main; main()", "data", "ingest"]
STORED_FIRST = FIRST - 1
"""One of the first recordings is truncated and quarantined."""


def run_until_step(source: Path, store: Path, step: int) -> bool:
    """Return whether the process died at the step. False means that it finished with fewer steps."""
    arguments = [sys.executable, str(SCRIPT), "folder", str(source), str(store), "--die-at", str(step)]
    code = subprocess.run(arguments, check=False).returncode
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.fixture
def grown(originals: Path, tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """Return a store of version 1, the grown source, and the expected version 2."""
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
def test_kill_at_two_steps(
    grown: tuple[Path, Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The continuation is also killed. Its remaining work differs between cases."""
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
    """A command that makes a store, and the expected store."""

    command: Callable[[Path, int], list[str]]
    expected: dict[str, str]

    def start(self, store: Path, workers: int) -> subprocess.Popen[bytes]:
        """Start the command in its own session, and wait until it locks the store."""
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
        """Run the command to its end. Return the seconds for which it locked the store."""
        process = self.start(store, workers)
        started = time.monotonic()
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        return time.monotonic() - started


Moment = Callable[[subprocess.Popen[bytes], Path], None]
"""Function that waits until the process that makes a store should be killed."""


def receipts(number: int) -> Moment:
    """Return a function that waits until a number of tasks is done, or the process ends."""

    def wait(process: subprocess.Popen[bytes], store: Path) -> None:
        while process.poll() is None and len(list((store / TASK_RECORDS).glob("*.json"))) < number:
            time.sleep(0.002)

    return wait


def random_moment(choice: random.Random, seconds: float) -> Moment:
    """Return a function that waits for a random time up to a number of seconds."""
    return lambda process, store: time.sleep(choice.uniform(0, seconds))


def session(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the running processes of a command, including itself."""
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
    """Kill only the main process, as a user's ``kill -9`` does. The workers are orphaned."""
    process.kill()
    return True


def kill_worker(process: subprocess.Popen[bytes], choice: random.Random) -> bool:
    workers = [other for other in session(process) if "LokyProcess" in " ".join(other.cmdline())]
    if not workers:
        return False
    choice.choice(workers).kill()
    return True


def wait_for_orphans(process: subprocess.Popen[bytes]) -> None:
    """Wait until every process of a session has ended, up to the time limit of the test."""
    while session(process):
        time.sleep(0.05)


def killed_run(ingest: Ingest, store: Path, workers: int, kill: str, moment: Moment) -> bool:
    """Start and kill one run. Return False if it ended before the kill."""
    process = ingest.start(store, workers)
    moment(process, store)
    hit = process.poll() is None and (kill_all(process) if kill == "all" else kill_main(process))
    process.communicate()
    return hit and process.returncode == -signal.SIGKILL


def check_continued(ingest: Ingest, store: Path, workers: int) -> None:
    """Continue a killed run at once, while orphaned processes may still work."""
    process = ingest.start(store, workers)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    wait_for_orphans(process)
    assert fingerprint(store) == ingest.expected
    assert not partials(store)
    assert verify(store) == []


def kills(ingest: Ingest, store: Path, workers: int, kill: str, moment: Moment, choice: random.Random) -> int:
    """Kill an ingest once or several times, and continue it. Return the number of effective kills."""
    while not killed_run(ingest, store, workers, kill, moment):
        shutil.rmtree(store, ignore_errors=True)
    hits = 1
    while choice.random() < 0.3:
        hits += killed_run(ingest, store, workers, kill, moment)
    check_continued(ingest, store, workers)
    shutil.rmtree(store)
    return hits


def kill_of_a_worker(ingest: Ingest, store: Path, moment: Moment, choice: random.Random) -> None:
    """Kill one of two workers. The run continues and succeeds."""
    hit = False
    while not hit:
        shutil.rmtree(store, ignore_errors=True)
        process = ingest.start(store, 2)
        moment(process, store)
        hit = process.poll() is None and kill_worker(process, choice)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        assert fingerprint(store) == ingest.expected
        assert not partials(store)


@pytest.fixture(scope="module")
def after_first_task(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Ingest:
    """Return an ingest of several tasks."""

    def command(store: Path, workers: int) -> list[str]:
        arguments = ["ludb", f"{originals}/ludb", str(store), "--records-per-shard", "2", "--workers", str(workers)]
        return [sys.executable, str(SCRIPT), *arguments]

    undisturbed = ingest(small_dataset("ludb", 2), f"{originals}/ludb", tmp_path_factory.mktemp("undisturbed"))
    assert len(undisturbed.shards) > 2
    return Ingest(command, fingerprint(undisturbed.folder))


@pytest.mark.parametrize(
    ("kill", "workers"), [("main", 2), pytest.param("all", 1, marks=pytest.mark.slow)], ids=["main", "all"]
)
def test_kill_after_the_first_task(kill: str, workers: int, after_first_task: Ingest, tmp_path: Path) -> None:
    """Orphaned workers may still write when the ingest is continued."""
    assert kills(after_first_task, tmp_path / "store", workers, kill, receipts(1), random.Random(2)) == 1


@pytest.mark.slow
def test_kill_of_a_worker_after_the_first_task(after_first_task: Ingest, tmp_path: Path) -> None:
    """``tests/store/test_engines.py`` has a worker that kills itself."""
    kill_of_a_worker(after_first_task, tmp_path / "store", receipts(1), random.Random(1))


@pytest.mark.slow
def test_random_kills_in_full(real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Make 50 stores of 3,000 recordings of CinC 2017 by the command, and 15 that lose a worker."""
    with scratch_folder(tmp_path) as folder:
        archive = slice_zip(real_data / "cinc2017.zip", folder / "slice.zip", 3000)

        def command(store: Path, workers: int) -> list[str]:
            return [*COMMAND, "physionet2017", str(archive), str(store), "--workers", str(workers)]

        plain, choice, hits = Ingest(command, {}), random.Random(2), 0
        seconds = {workers: plain.finish(folder / f"undisturbed-{workers}", workers) for workers in (1, 2)}
        made = Ingest(command, fingerprint(folder / "undisturbed-1"))
        assert made.expected == fingerprint(folder / "undisturbed-2")
        for number in range(50):
            workers, kill = (1, "all") if number < 20 else (2, "all") if number < 35 else (2, "main")
            hits += kills(made, folder / "store", workers, kill, random_moment(choice, seconds[workers]), choice)
        for _ in range(15):
            kill_of_a_worker(made, folder / "worker", random_moment(choice, seconds[2]), choice)
    with capsys.disabled():
        print(f"\nkills: 50 of 50 stores byte-identical ({hits} kills); 15 of 15 that lost a worker")


WRITER = """
import sys
from pathlib import Path
from clocs.core.storage import files

files.on_write_step = lambda step, path: print(step, flush=True)
with files.atomic_file(Path(sys.argv[1])) as file:
    for _ in range(int(sys.argv[2])):
        line = sys.stdin.readline()
        file.write(bytes([int(line)]) * 5000)
        file.flush()
        print("written", flush=True)
"""
"""Script that writes one part of a file per input line."""
LINES = [f"{number}\n" for number in range(1, 20)]
WHOLE = b"".join(bytes([number]) * 5000 for number in range(1, 20))


def writer_of(path: Path) -> subprocess.Popen[str]:
    """Start a process that is about to write a file."""
    command = [sys.executable, "-c", WRITER, str(path), str(len(LINES))]
    pipe = subprocess.PIPE
    writer = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    expect(writer, "before write")
    return writer


def expect(writer: subprocess.Popen[str], step: str) -> None:
    assert writer.stdout is not None
    assert writer.stdout.readline() == f"{step}\n"


def give(writer: subprocess.Popen[str], lines: list[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.writelines(lines)
    writer.stdin.flush()


def test_orphaned_worker_and_next_run_write_the_same_file(tmp_path: Path) -> None:
    """Others begin while the first has written half. The file is always complete under its final name."""
    path = tmp_path / "one"
    first = writer_of(path)
    give(first, LINES[:10])
    for _ in LINES[:10]:
        expect(first, "written")
    others = [writer_of(path) for _ in range(2)]
    for other in others:
        give(other, LINES)
    assert not path.exists()
    give(first, LINES[10:])
    while any(writer.poll() is None for writer in (first, *others)):
        assert not path.exists() or path.read_bytes() == WHOLE
        time.sleep(0.01)
    for writer in (first, *others):
        _, errors = writer.communicate()
        assert writer.returncode == 0, errors
    assert path.read_bytes() == WHOLE
    assert not partials(tmp_path)
