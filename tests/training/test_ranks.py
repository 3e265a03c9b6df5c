"""Two real processes over gloo train as one does: the same batches, losses and gradients."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from tests.training.conftest import Driver

EXACT = ("precision=64-true", "encoder.dropout=0", "batch_size=64")


def gradients(drive: Driver, folder: Path, method: str, ranks: int, *overrides: str) -> dict[str, torch.Tensor]:
    path = folder / f"{method}-{ranks}.safetensors"
    drive(method, *overrides, f"runs={folder / str(ranks)}", ranks=ranks, gradients=str(path))
    return load_file(path)


METHODS = ("cmsc", "byol", "cmsmlc", "simclr", "mtssl", "supervised", "vicreg", "cpc")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in METHODS]


@pytest.mark.parametrize("method", SLOW)
def test_loss_and_gradients_equal_one_process(method: str, drive: Driver, tmp_path: Path) -> None:
    """``instances_per_patient`` is off: with 100 patients, batches of 64 repeat patients across ranks anyway."""
    one, two = (gradients(drive, tmp_path, method, ranks, *EXACT) for ranks in (1, 2))
    assert one.keys() == two.keys()
    assert len(one) > 10
    for name, value in one.items():
        difference = float((two[name] - value).abs().max())
        assert difference <= 1e-10 * max(1.0, float(value.abs().max())), f"{name} differs by {difference:.1e}"


@pytest.mark.slow
def test_float32_differs_by_rounding_only(drive: Driver, tmp_path: Path) -> None:
    one, two = (gradients(drive, tmp_path, "cmsc", ranks, "encoder.dropout=0", "batch_size=64") for ranks in (1, 2))
    scale = max(float(value.abs().max()) for value in one.values())
    worst = max(float((two[name] - value).abs().max()) for name, value in one.items())
    print(f"float32, two ranks against one: largest gradient difference {worst:.2e} of {scale:.2e}")
    assert worst < 1e-3 * scale


@pytest.mark.slow
def test_a_validation_part_that_fills_no_batch_gives_any_number_of_ranks_the_same_loss(
    drive: Driver, tmp_path: Path
) -> None:
    settings = ("precision=64-true", "encoder.dropout=0", "batch_size=256", "max_steps=1")
    for ranks in (1, 2):
        drive("cmsc", *settings, f"runs={tmp_path / str(ranks)}", ranks=ranks)
    one, two = (_lines(next((tmp_path / str(ranks)).glob("*/metrics.jsonl"))) for ranks in (1, 2))
    assert two[-1]["validation_loss"] == pytest.approx(one[-1]["validation_loss"], abs=1e-9)


@pytest.mark.slow
def test_ranks_may_change_during_a_run(drive: Driver, tmp_path: Path) -> None:
    """1 -> 2 -> 1 ranks over 30 steps: the same global batches, the same losses."""
    settings = (*EXACT, "max_steps=30", "checkpoint_every=5")
    drive("cmsc", *settings, f"runs={tmp_path / 'whole'}")
    (whole,) = (tmp_path / "whole").glob("*/metrics.jsonl")
    drive("cmsc", *settings, stop_at=10, check=False)
    drive("cmsc", *settings, ranks=2, stop_at=20, check=False)
    drive("cmsc", *settings)
    (elastic,) = (tmp_path / "runs").glob("*/metrics.jsonl")
    assert elastic.parent.name == whole.parent.name
    expected, found = ([json.loads(line) for line in path.read_text().splitlines()] for path in (whole, elastic))
    assert [line["step"] for line in found] == [line["step"] for line in expected]
    assert [line.get("items") for line in found] == [line.get("items") for line in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for key in ("loss", "train_loss", "validation_loss"):
            if key in theirs:
                assert ours[key] == pytest.approx(theirs[key], abs=1e-9)


@pytest.mark.slow
def test_a_killed_rank_ends_the_job_and_all_ranks_resume_from_the_undamaged_checkpoint(
    store: Path, tmp_path: Path
) -> None:
    """As a user runs it: ``clocs pretrain ... devices=2``, and kill -9 of its second process midway."""
    command = [sys.executable, "-m", "clocs", "pretrain", "cmsc-synthetic", f"store={store}", f"runs={tmp_path}"]
    command += ["devices=2", "max_steps=60", "batch_size=64", "checkpoint_every=5", "--json"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _kill_second_rank_after(tmp_path, job, steps=12)
    _, message = job.communicate()
    assert job.returncode != 0
    assert "the same command resumes the run" in " ".join(message.split())
    (metrics,) = tmp_path.glob("*/metrics.jsonl")
    written = sorted((metrics.parent / "checkpoints").glob("*.json"))
    older, newer = (path.with_suffix(".safetensors") for path in written[-2:])
    newer.write_bytes(newer.read_bytes()[:-9])
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["steps"], f"step-{result['resumed_from']:08d}") == (60, older.stem)
    assert "".join(f"{newer}: content differs from its hash".split()) in "".join(done.stderr.split())
    assert [line["step"] for line in _lines(metrics) if "items" in line] == list(range(1, 61))


def _lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _kill_second_rank_after(runs: Path, job: subprocess.Popen[str], steps: int) -> None:
    while job.poll() is None:
        if any(len(_lines(path)) >= steps for path in runs.glob("*/metrics.jsonl")):
            for child in psutil.Process(job.pid).children(recursive=True):
                if child.environ().get("LOCAL_RANK") == "1":
                    child.kill()
                    return
        time.sleep(0.05)
    raise AssertionError("the job ended before its second rank was killed")
