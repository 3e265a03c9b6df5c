"""A run's folder: what damage and a full disk do to it, and that the advice is true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.core.errors import IntegrityError, StoreError
from clocs.training.runs import Run, environment, finished_epochs, read_config, read_environment, timings

TORN = b'{"step": 2, "fra'
ZEROS = bytes(16) + b"\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    begun = Run(tmp_path, "cmsc-example", {"method": {"name": "cmsc"}}, {})
    begun.begin()
    return begun


def test_a_folder_that_cannot_hold_runs_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"Cannot write .*config\.json: Not a directory"):
        Run(tmp_path / "file", "cmsc-example", {}, {}).begin()


def test_a_damaged_timing_line_is_left_out(run: Run) -> None:
    run.timing.append(step=4, frames=100, seconds=2.0)
    timing = run.folder / "timing.jsonl"
    timing.write_bytes(timing.read_bytes() + ZEROS + b"\xff\n7\n" + TORN)
    run.timing.append(step=8, frames=10, seconds=9.0)  # on the torn line, which a run that goes on cuts off first
    assert run.speed() == 50.0
    timing.write_bytes(timing.read_bytes() + TORN)
    run.rewind(None)
    run.timing.append(step=12, frames=20, seconds=1.0)
    assert run.speed() == 40.0
    run.finish({})
    assert [line["step"] for line in timings(run.folder)] == [4, 12]


def test_a_run_with_a_damaged_timing_line_finishes(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "batch_size=16", "max_steps=1", "max_epochs=2"]
    folder = Path(clocs.pretrain("cmsc-synthetic", told)["run"])
    (folder / "result.json").unlink()
    (folder / "timing.jsonl").write_bytes(TORN + b"\n")
    assert clocs.pretrain("cmsc-synthetic", told)["steps"] == 1


def test_rewinding_keeps_earlier_lines(run: Run) -> None:
    stated = []
    for step in range(1, 5):
        run.metrics.append(step=step, validation_loss=1 / 3**step)
        stated.append(run.metrics.sync())
    metrics = run.folder / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole + TORN)
    assert [line["step"] for line in finished_epochs(run.folder)] == [1, 2, 3, 4]
    run.rewind(stated[2])
    assert metrics.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])
    run.metrics.append(step=4, validation_loss=1 / 3**4)
    assert run.metrics.sync() == stated[3]
    assert metrics.read_bytes() == whole
    run.rewind(None)
    assert metrics.read_bytes() == b""


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw.replace(b"2", b"3", 1), lambda raw: b""])
def test_rewinding_to_damaged_lines_is_refused(damage: Callable[[bytes], bytes], run: Run) -> None:
    run.metrics.append(step=1)
    run.metrics.append(step=2)
    stated = run.metrics.sync()
    metrics = run.folder / "metrics.jsonl"
    metrics.write_bytes(damage(metrics.read_bytes()))
    with pytest.raises(IntegrityError, match=rf"^{metrics}: "):
        run.rewind(stated)


@pytest.mark.parametrize("damage", [ZEROS, b"\xff\n", TORN + b"\n", b"7\n"])
def test_a_damaged_line_of_metrics_is_reported_with_advice(damage: bytes, run: Run) -> None:
    run.metrics.append(step=1, epoch=0, validation_loss=2.0)
    metrics = run.folder / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole + damage + whole)
    with pytest.raises(IntegrityError, match=rf"^{metrics}: line 2 cannot be read"):
        finished_epochs(run.folder)
    metrics.write_bytes(whole + whole)
    assert len(finished_epochs(run.folder)) == 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl"])
def test_logs_of_a_finished_run_are_verified(name: str, run: Run) -> None:
    """Each bit of each line, a line more and a line less."""
    run.metrics.append(step=1, epoch=0, validation_loss=2.0)
    run.timing.append(step=1, frames=8, seconds=2.0)
    run.finish({"steps": 1})
    assert run.result() == {"steps": 1}
    read = finished_epochs if name == "metrics.jsonl" else timings
    path = run.folder / name
    whole, lines = path.read_bytes(), read(run.folder)
    assert len(lines) == 1
    flipped = [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(len(whole)) for bit in range(8)
    ]
    for damaged in (*flipped, whole + whole, whole[:-1], b""):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=rf"^{path}: .*Restore it from a copy, or delete {run.folder} to"):
            read(run.folder)
    path.unlink()
    with pytest.raises(IntegrityError, match=rf"^{path}: cannot be read"):
        read(run.folder)
    path.write_bytes(whole)
    assert read(run.folder) == lines


@pytest.mark.parametrize("read", [read_config, read_environment])
def test_what_a_run_is_and_where_it_ran_carry_their_hash(read: Callable[[Path], dict[str, Any]], run: Run) -> None:
    path = run.folder / ("config.json" if read is read_config else "environment.json")
    assert read(run.folder) == (run.config if read is read_config else environment())
    path.write_bytes(path.read_bytes().replace(b"c", b"k", 1))
    with pytest.raises(IntegrityError, match=rf"^{path}: "):
        read(run.folder)


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl"])
def test_a_full_disk_is_reported(name: str, run: Run) -> None:
    (run.folder / name).symlink_to("/dev/full")
    log = run.metrics if name == "metrics.jsonl" else run.timing
    with pytest.raises(
        StoreError, match=f"Cannot write {run.folder / name}: No space left.*run the same command again"
    ):
        log.append(step=1)


def test_a_damaged_result_is_named_and_without_it_the_run_finishes_again(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "batch_size=16", "max_steps=2"]
    done = clocs.pretrain("cmsc-synthetic", told)
    result = Path(done["run"]) / "result.json"
    kept = json.loads(result.read_bytes())
    result.write_bytes(result.read_bytes()[:20])
    with pytest.raises(
        IntegrityError, match=rf"^{result}: .*Delete this file, so that the same command finishes the run"
    ):
        clocs.pretrain("cmsc-synthetic", told)
    result.unlink()
    assert clocs.pretrain("cmsc-synthetic", told)["best"] == done["best"]
    assert json.loads(result.read_bytes()) == kept
