"""``kill -9`` at every step of withdraw, compact and prune: the store is the old version or the new one."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from clocs.core.storage import files
from clocs.formats.writing import write
from clocs.store.compact import compact
from clocs.store.manifest import versions
from clocs.store.prune import prune
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.verify import verify
from clocs.store.withdraw import withdraw
from tests.conftest import make_recording
from tests.faults.ingesting import die_at
from tests.faults.stores import fingerprint, partials, small_ingest

PATIENT = "b"


def run_withdraw(folder: Path) -> None:
    withdraw(folder, [PATIENT])


def run_compact(folder: Path) -> None:
    compact(folder)


def run_prune(folder: Path) -> None:
    prune(folder, grace=timedelta(0), dry_run=False)


CHANGES: dict[str, Callable[[Path], None]] = {"withdraw": run_withdraw, "compact": run_compact, "prune": run_prune}


def count_steps(change: str, folder: Path) -> int:
    """Return the number of named steps of a change."""
    if change == "prune":
        return len(prune(folder, grace=timedelta(0)).files) + 1  # the JSON of the split is renamed before
    # Both write a shard and its checksums, a task record, five files of a segment, quarantine list and manifest in
    # three steps each. A withdrawal begins with the hashes.
    return 3 * (2 + 1 + 5 + 2) + (3 if change == "withdraw" else 0)


def add_files(source: Path, store: Path, names: str) -> Store:
    source.mkdir(exist_ok=True)
    for name in names:
        num_samples = 300 if name == "d" else 2500
        recording = make_recording(("II",), num_samples=num_samples, seed=ord(name), record_id=name)
        write(recording, source / f"{name}.csv", "csv")
    return small_ingest(source, store)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of two versions and two small shards, a split, a frame cache, and its source."""
    folder = tmp_path_factory.mktemp("original")
    add_files(folder / "source", folder / "store", "ab")
    make_split(add_files(folder / "source", folder / "store", "cd"))
    open_store(folder / "store").frames("evaluation").cached()
    return folder


def run_and_die(change: str, folder: Path, step: int) -> None:
    """Run a change in this process, and kill the process at a step."""
    die_at(step)
    CHANGES[change](folder)


def died_at(change: str, folder: Path, step: int) -> bool:
    """Return whether a process died at the step. False means that it finished with fewer steps."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=run_and_die, args=(change, folder, step))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def recordings(folder: Path) -> list[list[str]]:
    """Return the record ids of each version, after reading every recording."""
    return [[item.record_id for item in open_store(folder, number)] for number in versions(folder)]


@pytest.mark.parametrize(
    ("change", "stride"), [("withdraw", 5), *(pytest.param(each, 1, marks=pytest.mark.slow) for each in CHANGES)]
)
def test_kill_at_named_steps(
    change: str, stride: int, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In CI, a withdrawal is killed at every fifth step."""
    start, expected = tmp_path / "start", tmp_path / "expected"
    shutil.copytree(original / "store", start)
    if change == "prune":
        withdraw(start, [PATIENT])
        compact(start)
    shutil.copytree(start, expected)
    CHANGES[change](expected)
    before, after = recordings(start), recordings(expected)
    num_steps = count_steps(change, start)
    for step in (*range(1, num_steps + 1, stride), num_steps + 1):
        folder = tmp_path / "store"
        shutil.copytree(start, folder)
        died = died_at(change, folder, step)
        assert verify(folder) == [], f"killed at step {step}"
        found = recordings(folder)
        assert found[-1] in (before[-1], after[-1])
        assert all(ids in before or ids in after for ids in found)
        CHANGES[change](folder)
        assert fingerprint(folder) == fingerprint(expected), f"killed at step {step}"
        assert not partials(folder)
        assert verify(folder) == []
        small_ingest(original / "source", folder)
        assert recordings(folder)[-1] == after[-1], f"killed at step {step}"
        shutil.rmtree(folder)
        assert died == (step <= num_steps)
    with capsys.disabled():
        print(f"\n{change}: kills at {len(range(0, num_steps, stride))} of {num_steps} named steps")


@pytest.mark.slow
def test_an_ingest_between_a_killed_withdrawal_and_its_continuation(original: Path, tmp_path: Path) -> None:
    """The ingest may store the patient once more, as before the withdrawal. The continuation removes the patient."""
    for step in count(1):
        folder = tmp_path / "store"
        shutil.copytree(original / "store", folder)
        died = died_at("withdraw", folder, step)
        small_ingest(original / "source", folder)
        assert verify(folder) == []
        run_withdraw(folder)
        assert sorted(recordings(folder)[-1]) == ["a", "c"]
        small_ingest(original / "source", folder)
        assert sorted(recordings(folder)[-1]) == ["a", "c"]
        assert verify(folder) == []
        shutil.rmtree(folder)
        if not died:
            break


def test_removed_files_are_named_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "on_write_step", lambda step, path: steps.append((step, path.name)))
    (tmp_path / "a").touch()
    files.remove_file(files.make_temporary(tmp_path / "a"))
    assert steps == [("before rename", "a"), ("before remove", "a.partial")]
    assert os.listdir(tmp_path) == []
