"""A run's copy in a bucket, on a real S3 server: another machine continues it bit for bit, one process at a time."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.core.errors import ConfigError, StoreError
from clocs.core.hashes import unseal
from clocs.core.storage.bucket import Bucket
from clocs.core.storage.locations import to_location
from tests.training.conftest import Driver
from tests.training.test_resume import content

AUGMENTED = "method.augmentations=[gaussian_noise]"
SETTINGS = ("max_steps=12", "checkpoint_every=4", "batch_size=32", "max_epochs=2", AUGMENTED)


class StoppedError(Exception):
    """End of a process, as a test imitates it."""


def train(store: Path, runs: Path, bucket: str | None, *more: str, **options: Any) -> dict[str, Any]:
    settings = [f"store={store}", f"runs={runs}", *SETTINGS, *more]
    return clocs.pretrain("cmsc-synthetic", settings + ([f"mirror={bucket}/runs"] if bucket else []), **options)


def stop_at(step: int) -> Any:
    def progress(known: dict[str, Any]) -> None:
        if "loss" in known and known["step"] == step:
            raise StoppedError

    return progress


def latest(bucket: str, run: str) -> dict[str, Any]:
    return unseal((to_location(f"{bucket}/runs") / Path(run).name / "latest.json").read_bytes(), "latest.json")


def test_a_machine_without_the_folder_continues_bit_for_bit(store: Path, bucket: str, tmp_path: Path) -> None:
    whole = train(store, tmp_path / "whole", None)
    with pytest.raises(StoppedError):
        train(store, tmp_path / "one", bucket, progress=stop_at(7))
    shutil.rmtree(tmp_path / "one")
    found = train(store, tmp_path / "two", bucket)
    assert (found["resumed_from"], found["already_finished"]) == (4, False)
    assert content(tmp_path / "two") == content(tmp_path / "whole")
    listed = latest(bucket, found["run"])
    assert (listed["step"], listed["finished"]) == (12, True)
    objects = list((to_location(f"{bucket}/runs") / Path(found["run"]).name / "files").rglob("*"))
    assert len(objects) == len(listed["files"])  # those of earlier checkpoints are removed
    third = train(store, tmp_path / "three", bucket)
    assert third["already_finished"]
    assert third["validation_loss"] == whole["validation_loss"]
    assert content(tmp_path / "three") == content(tmp_path / "whole")


def test_a_process_whose_run_another_continues_stops(store: Path, bucket: str, tmp_path: Path) -> None:
    finished = {}

    def other_machine(known: dict[str, Any]) -> None:
        if "loss" in known and known["step"] == 6:
            finished.update(train(store, tmp_path / "two", bucket))

    with pytest.raises(StoreError, match=r"process \d+ on .* continues this run, and has step 12.*stops after step 8"):
        train(store, tmp_path / "one", bucket, progress=other_machine)
    assert finished["resumed_from"] == 4
    assert latest(bucket, finished["run"])["finished"]
    assert train(store, tmp_path / "one", bucket)["already_finished"]


def test_a_local_folder_that_is_ahead_is_copied(
    store: Path, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training outlives a bucket that refuses writes, and the next call copies what is there."""
    put = Bucket._put

    def refuse(self: Bucket, key: str, data: bytes | Path, mode: Any) -> Any:
        if "probe" in key:
            return put(self, key, data, mode)
        raise StoreError(f"Cannot write {key}: status 503.")

    with monkeypatch.context() as broken:
        broken.setattr(Bucket, "_put", refuse)
        with (
            pytest.warns(UserWarning, match="status 503.*Training continues"),
            pytest.raises(StoreError, match="status 503"),
        ):
            train(store, tmp_path / "one", bucket)
    found = train(store, tmp_path / "one", bucket)
    assert found["already_finished"]
    assert train(store, tmp_path / "two", bucket)["already_finished"]
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_folders_and_buckets_are_not_confused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a bucket"):
        train(store, tmp_path, None, f"mirror={tmp_path}")
    with pytest.raises(ConfigError, match="needs a local folder"):
        train(store, Path("s3://ecgs/runs"), None)


@pytest.mark.slow
def test_killed_at_every_write_with_the_folder_lost(drive: Driver, bucket: str, tmp_path: Path) -> None:
    """kill -9 in local writes and in those to the bucket; after every second kill, the local folder is lost."""
    drive("cmsc", *SETTINGS, f"runs={tmp_path / 'whole'}")
    for number, count in enumerate(sorted(random.Random(0).sample(range(4, 90), 12))):
        assert drive("cmsc", *SETTINGS, f"mirror={bucket}/runs", kill_at_write=count, check=False).returncode in (-9, 0)
        if number % 2:
            shutil.rmtree(tmp_path / "runs")
    drive("cmsc", *SETTINGS, f"mirror={bucket}/runs")
    assert content(tmp_path / "runs") == content(tmp_path / "whole")
