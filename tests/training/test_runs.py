"""A run's folder: what damage and a full disk do to it, and that the advice is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clocs
from clocs.core.errors import IntegrityError, StoreError
from clocs.training.runs import Run, finished_epochs

TORN = b'{"step": 2, "fra'
ZEROS = bytes(16) + b"\n"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    begun = Run(tmp_path, "cmsc-example", {"method": {"name": "cmsc"}})
    begun.begin()
    return begun


def test_a_place_that_cannot_hold_runs_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write .*config\.json: Not a directory"):
        Run(tmp_path / "file", "cmsc-example", {}).begin()


def test_a_torn_line_of_the_clock_is_left_out(run: Run) -> None:
    run.log_timing(step=4, frames=100, seconds=2.0)
    timing = run.folder / "timing.jsonl"
    timing.write_bytes(timing.read_bytes() + ZEROS + b"\xff\n7\n" + TORN)
    run.log_timing(step=8, frames=10, seconds=9.0)  # on the torn line, which a run that goes on cuts off first
    assert run.speed() == 50.0
    timing.write_bytes(timing.read_bytes() + TORN)
    run.rewind(8)
    run.log_timing(step=12, frames=20, seconds=1.0)
    assert run.speed() == 40.0


def test_a_run_with_a_torn_line_of_the_clock_comes_to_its_end(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "batch=16", "steps=1", "epochs=2"]
    folder = Path(clocs.pretrain("cmsc-synthetic", told)["run"])
    (folder / "result.json").unlink()
    (folder / "timing.jsonl").write_bytes(TORN + b"\n")
    assert clocs.pretrain("cmsc-synthetic", told)["steps"] == 1


def test_rewinding_leaves_the_lines_before_as_they_were(run: Run) -> None:
    for step in range(1, 5):
        run.log(step=step, loss=1 / 3**step, items=step)
    metrics = run.folder / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole + TORN)
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4]
    run.rewind(3)
    assert metrics.read_bytes() == b"".join(whole.splitlines(keepends=True)[:3])


@pytest.mark.parametrize("damage", [ZEROS, b"\xff\n", TORN + b"\n", b"7\n"])
def test_a_damaged_line_of_metrics_is_named_with_what_to_delete(damage: bytes, run: Run) -> None:
    run.log(step=1, epoch=0, validation_loss=2.0)
    metrics = run.folder / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole + damage + whole)
    for read in (run.metrics, lambda: run.rewind(5), lambda: finished_epochs(run.folder)):
        with pytest.raises(IntegrityError, match=rf"^{metrics}: line 2 cannot be read.*, or delete {run.folder}, and"):
            read()
    metrics.write_bytes(whole + whole)
    assert len(finished_epochs(run.folder)) == 2


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.jsonl"])
def test_a_full_disk_is_told_in_words(name: str, run: Run) -> None:
    (run.folder / name).symlink_to("/dev/full")
    log = run.log if name == "metrics.jsonl" else run.log_timing
    with pytest.raises(
        StoreError, match=f"cannot write {run.folder / name}: No space left.*the same command continues"
    ):
        log(step=1)


def test_a_damaged_result_is_named_and_without_it_the_run_finishes_again(store: Path, tmp_path: Path) -> None:
    told = [f"store={store}", f"runs={tmp_path}", "batch=16", "steps=2"]
    done = clocs.pretrain("cmsc-synthetic", told)
    result = Path(done["run"]) / "result.json"
    kept = json.loads(result.read_bytes())
    result.write_bytes(result.read_bytes()[:20])
    with pytest.raises(IntegrityError, match=rf"^{result}: .*Delete this file, and the same command finishes the run"):
        clocs.pretrain("cmsc-synthetic", told)
    result.unlink()
    assert clocs.pretrain("cmsc-synthetic", told)["best"] == done["best"]
    assert json.loads(result.read_bytes()) == kept
