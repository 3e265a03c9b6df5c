"""A run that is killed and continued is, bit for bit, the run that was not."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

import clocs
from tests.training.conftest import Driver

SETTINGS = ("max_steps=40", "checkpoint_every=7", "batch_size=32", "max_epochs=3")


def content(runs: Path) -> dict[str, str]:
    """Return the hashes of everything a run leaves but the clock's readings and how often it was resumed."""
    others = {"timing.jsonl", "result.json", "resumes.jsonl"}
    kept = [path for path in runs.rglob("*") if path.is_file() and path.name not in others]
    return {str(path.relative_to(runs)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


@pytest.mark.slow
def test_killed_at_random_steps(drive: Driver, tmp_path: Path) -> None:
    """kill -9 of the real process after a step, each later than the last; dropout and augmentations are on."""
    drive("cmsc", *SETTINGS, "method.augmentations=[gaussian_noise]", f"runs={tmp_path / 'whole'}")
    for moment in sorted(random.Random(0).sample(range(8, 40), 2)):
        killed = drive("cmsc", *SETTINGS, "method.augmentations=[gaussian_noise]", stop_at=moment, check=False)
        assert killed.returncode == -9
    drive("cmsc", *SETTINGS, "method.augmentations=[gaussian_noise]")
    assert content(tmp_path / "runs") == content(tmp_path / "whole")


@pytest.mark.slow
def test_killed_during_a_checkpoint_write(drive: Driver, tmp_path: Path) -> None:
    """Each kill falls on another step of a durable write; what is there always loads."""
    drive("cmsc", *SETTINGS, f"runs={tmp_path / 'whole'}")
    for count in (5, 8, 11, 14, 17):
        assert drive("cmsc", *SETTINGS, kill_at_write=count, check=False).returncode == -9
    drive("cmsc", *SETTINGS)
    assert content(tmp_path / "runs") == content(tmp_path / "whole")


def test_a_finished_run_is_not_repeated(store: Path, tmp_path: Path) -> None:
    settings = [f"store={store}", f"runs={tmp_path}", "max_steps=3", "batch_size=32"]
    first, again = (clocs.pretrain("byol-synthetic", settings) for _ in range(2))
    assert (first["already_finished"], again["already_finished"]) == (False, True)
    assert first["run"] == again["run"]
    assert first["validation_loss"] == again["validation_loss"]


@pytest.mark.slow
def test_a_real_run_killed_25_times(drive: Driver, chapman_slice: Path, tmp_path: Path) -> None:
    """CMSC on real recordings, 200 steps: kill -9 at 25 random steps, each later than the last."""
    settings = (f"store={chapman_slice}", "max_steps=200", "batch_size=64", "checkpoint_every=5")
    drive("cmsc", *settings, f"runs={tmp_path / 'whole'}")
    moments = sorted(random.Random(1).sample(range(6, 200), 25))
    for moment in moments:
        drive("cmsc", *settings, stop_at=moment, check=False)
    drive("cmsc", *settings)
    assert content(tmp_path / "runs") == content(tmp_path / "whole")
    print(f"kills: {len(moments)} of {len(moments)} survived; weights, optimiser, log and order are bit-identical")


@pytest.mark.slow
def test_a_real_run_killed_in_25_checkpoint_writes(drive: Driver, chapman_slice: Path, tmp_path: Path) -> None:
    settings = (f"store={chapman_slice}", "max_steps=200", "batch_size=64", "checkpoint_every=5")
    drive("cmsc", *settings, f"runs={tmp_path / 'whole'}")
    kills = 0
    for count in range(5, 30):
        kills += drive("cmsc", *settings, kill_at_write=count, check=False).returncode == -9
    drive("cmsc", *settings)
    assert kills == 25
    assert content(tmp_path / "runs") == content(tmp_path / "whole")
    print(f"kills during a write: {kills}; the latest checkpoint loaded each time")
