"""Ingest of an archive in five formats, twice and with kills: the stores are identical."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clocs.core.recording import Recording
from clocs.datasets.synthetic import SYNTHETIC
from clocs.store.store import open_store
from clocs.store.task_records import TASK_RECORDS
from clocs.store.verify import verify
from tests.faults.stores import fingerprint, partials, scratch_folder
from tests.faults.test_kills import COMMAND, SCRIPT, Ingest, kill_all
from tests.formats.writers.recordings import write_quickly

ENDINGS = (".hea", ".dcm", ".edf", ".bdf", ".csv")
KILLS = 5
AGAIN = 0.05
"""Maximum processor time of a second run, as a fraction of the first."""


def generate_recordings(count: int) -> Iterator[Recording]:
    options, nowhere = SYNTHETIC.parse_options({"num_records": count}), None
    for entry in SYNTHETIC.entries(nowhere, options):  # type: ignore[arg-type]  # it reads no source
        yield SYNTHETIC.load(nowhere, entry, options)  # type: ignore[arg-type]


def write_archive(folder: Path, count: int) -> Path:
    """Write generated recordings, equally many in each format, in nested folders."""
    for number, recording in enumerate(generate_recordings(count)):
        place = folder / f"ward-{number % 7}" / f"{number // 500:03d}"
        place.mkdir(parents=True, exist_ok=True)
        write_quickly(recording, place / f"r{number:05d}{ENDINGS[number % len(ENDINGS)]}")
    return folder


def run_timed(command: list[str]) -> tuple[float, float]:
    """Run a command successfully. Return its processor time and wall time in seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - started


def kill_after(ingest: Ingest, store: Path, tasks: int, choice: random.Random) -> None:
    """Continue a store, and kill the run at a random time after a number of tasks is done."""
    process = ingest.start(store, 1)
    while len(list((store / TASK_RECORDS).glob("*.json"))) < tasks and process.poll() is None:
        time.sleep(0.01)
    time.sleep(choice.uniform(0, 0.3))
    assert process.poll() is None, "it was quicker than the kill"
    kill_all(process)
    process.communicate()


def ingest_twice_with_kills(command: Any, count: int, folder: Path) -> dict[str, float]:
    """Assert that all stores are identical. Return the measured times."""
    first, second = (run_timed(command(folder / "store", 1)) for _ in range(2))
    expected = fingerprint(folder / "store")
    store = open_store(folder / "store")
    formats = store.table(["format"]).column(0).to_pylist()
    assert (len(store), store.manifest.version, store.manifest.quarantined) == (count, 1, {})
    assert {formats.count(form) for form in ("wfdb", "dicom", "clocs-csv")} == {count // 5}
    assert formats.count("edf") == 2 * count // 5
    choice, tasks = random.Random(count), len(store.shards)
    for kill in range(KILLS):
        kill_after(Ingest(command, expected), folder / "killed", tasks * kill // KILLS, choice)
    last = run_timed(command(folder / "killed", 1))
    assert fingerprint(folder / "killed") == expected
    assert not partials(folder / "killed")
    assert verify(folder / "killed") == []
    return {"first": first[0], "second": second[0], "after kills": last[0], "first wall": first[1], "again": second[1]}


@pytest.mark.slow
def test_small_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write_archive(tmp_path / "archive", 200)

    def command(store: Path, workers: int) -> list[str]:
        return [sys.executable, str(SCRIPT), "folder", str(archive), str(store), "--records-per-shard", "5"]

    found = ingest_twice_with_kills(command, 200, tmp_path)
    with capsys.disabled():
        print(f"\narchive of 200 in five formats, {KILLS} kills, stores byte-identical: {format_times(found)}")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scratch_folder(tmp_path) as folder:
        archive = write_archive(folder / "archive", 10_000)

        def command(store: Path, workers: int) -> list[str]:
            return [*COMMAND, "folder", str(archive), str(store)]

        found = ingest_twice_with_kills(command, 10_000, folder)
    with capsys.disabled():
        print(f"\narchive of 10,000 in five formats, {KILLS} kills, stores byte-identical: {format_times(found)}")
    assert found["second"] < AGAIN * found["first"]


def format_times(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.items())
